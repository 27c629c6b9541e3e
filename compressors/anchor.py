"""AttentionRAG's reading of a chunk: what a model would answer next, and where that word looks."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rag.attention.windows import token_windows
from rag.compressors.tokens import plain_copy
from rag.errors import LimitError, ModelOutputError
from rag.types import Document, Span

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from rag.models.load import DType

# Instruction, context, hint, question, beginning of the answer: METHODS section 6, whose wording is from third-party
# implementations. The paper's own is UNVERIFIED.
_BEFORE = "Read the context and answer the question.\n\nContext:\n"
_HINT = '\n\nHint: begin the answer with "'
_NOTHING = '"; where the context does not help, answer "'
_QUESTION = 'none".\n\nQuestion: '
_ANSWER = "\n\nAnswer: "
NOTHING = "none"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive tokens of one document: their ids, each one's character range in the text, and the title's ids."""

    document: int
    ids: tuple[int, ...]
    offsets: tuple[Span, ...]
    title: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Anchor:
    """What was read of one chunk: the anchor token's text, and its attention to each token of the chunk (T,).

    Attention is summed over layers and averaged over heads: its sum is at most the number of layers.
    """

    text: str
    attention: NDArray[np.float64]

    @property
    def is_none(self) -> bool:
        """True where the model says that the chunk does not help."""
        word = self.text.strip(" \t\n\"'“”.").casefold()
        return word == NOTHING


class AnchorReader:
    """A causal language model that is asked for one word per chunk, chunks of like length at a time.

    Args:
        model: a model name (see `rag.models.resolve`), loaded at the first use with its language-model head.
        device, dtype: where and as what it is loaded.
        batch_tokens: most tokens of one pass, padding counted (a longer chunk is a pass of its own).

    transformers' eager attention is used, whose weights of one pass are read in the step of the anchor token alone.
    Safe for several threads, which take turns.
    """

    def __init__(self, model: str, *, device: str = "cpu", dtype: DType = "float32", batch_tokens: int = 2048) -> None:
        self.model = model
        self._device, self._dtype = device, dtype
        self._batch_tokens = batch_tokens
        self._lock = threading.Lock()

    @cached_property
    def _loaded(self) -> tuple[Any, Any, Tokenizer]:
        from rag.models.load import load_causal_lm
        from rag.models.resolve import resolve

        model, tokenizer = load_causal_lm(
            resolve(self.model, kind="llm"), device=self._device, dtype=self._dtype, attn_implementation="eager"
        )
        return model, tokenizer, plain_copy(tokenizer.backend_tokenizer)

    def chunks(self, documents: Sequence[Document], spans: Sequence[Sequence[Span]], chunk_tokens: int) -> list[Chunk]:
        """Whole sentences of each document, at most ``chunk_tokens`` tokens at a time; no token is left out.

        A sentence longer than that is cut between tokens. Blank documents have no chunk.
        """
        with self._lock:
            plain = self._loaded[2]
        found = []
        for number, (document, of) in enumerate(zip(documents, spans, strict=True)):
            text = plain.encode(document.text, add_special_tokens=False)
            offsets = tuple(Span(start, end) for start, end in text.offsets)
            title = tuple(plain.encode(document.title.strip(), add_special_tokens=False).ids)
            for start, end in token_windows(offsets, of, chunk_tokens, 0) if of else ():
                found.append(Chunk(number, tuple(text.ids[start:end]), offsets[start:end], title))
        return found

    def read(self, question: str, hint: str, chunks: Sequence[Chunk]) -> list[Anchor]:
        """The anchor of each chunk, greedily predicted after ``hint``, the beginning of the answer.

        Raises:
            LimitError: a prompt longer than the model reads.
            ModelOutputError: the model gave NaN or infinity.
        """
        with self._lock:
            model, tokenizer, _ = self._loaded
            before, break_, after = self._frame(question, hint)
            prompts: list[tuple[int, ...]] = []
            starts: list[int] = []
            for chunk in chunks:
                head = (*before, *chunk.title, *break_) if chunk.title else before
                starts.append(len(head))
                prompts.append((*head, *chunk.ids, *after))
            longest = max(map(len, prompts), default=0) + 1
            if longest > model.config.max_position_embeddings:
                raise LimitError(
                    f"a chunk and its question make a prompt of {longest} tokens; {self.model!r} reads "
                    f"{model.config.max_position_embeddings}: use smaller chunks or a shorter question"
                )
            anchors: list[Anchor | None] = [None] * len(chunks)
            order = sorted(range(len(chunks)), key=lambda item: -len(prompts[item]))
            while order:
                size = max(1, self._batch_tokens // len(prompts[order[0]]))
                batch, order = order[:size], order[size:]
                tokens, rows = _anchors(model, [prompts[item] for item in batch])
                for item, token, row in zip(batch, tokens, rows, strict=True):
                    place = len(row) - 1 - len(prompts[item]) + starts[item]  # padding is on the left
                    attention = row[place : place + len(chunks[item].ids)]
                    if not np.isfinite(attention).all():
                        raise ModelOutputError(f"{self.model!r} gave attention that is not a finite number")
                    anchors[item] = Anchor(tokenizer.decode([token]), attention)
        return [anchor for anchor in anchors if anchor is not None]

    def _frame(self, question: str, hint: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The prompt's tokens before the chunk, between a title and its text, and behind the chunk."""
        _, tokenizer, plain = self._loaded

        def tokens(text: str) -> tuple[int, ...]:
            return tuple(plain.encode(text, add_special_tokens=False).ids)

        start = () if tokenizer.bos_token_id is None else (tokenizer.bos_token_id,)
        after = f"{_HINT}{hint}{_NOTHING}{hint} {_QUESTION}{question}{_ANSWER}{hint}"
        return (*start, *tokens(_BEFORE)), tokens("\n"), tokens(after)


def _anchors(model: Any, prompts: Sequence[Sequence[int]]) -> tuple[list[int], list[NDArray[np.float64]]]:
    """The most likely next token of each prompt, and that token's attention to padding, prompt and itself."""
    import torch
    from transformers import DynamicCache

    # Without the model's configuration: with it, sliding layers would forget keys and give shorter rows.
    cache = {_cache_name(model): DynamicCache()}
    width = max(map(len, prompts))
    gaps = [width - len(ids) for ids in prompts]
    ids = torch.tensor([[0] * gap + list(line) for gap, line in zip(gaps, prompts, strict=True)], device=model.device)
    seen = (torch.arange(width) >= torch.tensor(gaps)[:, None]).long().to(model.device)
    with torch.inference_mode():
        first = model(
            input_ids=ids,
            attention_mask=seen,
            position_ids=(seen.cumsum(1) - 1).clamp(min=0),
            use_cache=True,
            logits_to_keep=1,
            **cache,
        )
        token = first.logits[:, -1:].argmax(-1)
        step = model(
            input_ids=token,
            attention_mask=torch.cat([seen, torch.ones_like(token)], dim=1),
            position_ids=seen.sum(1, keepdim=True),
            use_cache=True,
            output_attentions=True,
            **cache,
        )
        rows = sum(layer[:, :, 0].float().mean(1) for layer in step.attentions)
    return token[:, 0].tolist(), list(rows.double().cpu().numpy())


def _cache_name(model: Any) -> str:
    """What the model's forward calls its cache: transformers renamed it in 5.x."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
