"""Reader models: they answer from a context, so that what compression costs or gains in answers is measured."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from rag.errors import ConfigError, InputError, LimitError, ModelOutputError, shown

if TYPE_CHECKING:
    from rag.models.load import DType

WITH_CONTEXT = (
    "Answer the question from the context below, in as few words as possible. Give the answer alone, no sentence.\n\n"
    "{context}\n\nQuestion: {question}\nAnswer:"
)
WITHOUT_CONTEXT = (
    "Answer the question in as few words as possible. Give the answer alone, no sentence.\n\n"
    "Question: {question}\nAnswer:"
)

_PLACE = "(the prompt stands here)"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader said, what it read and wrote (tokens of its own tokenizer), and the wall time.

    Of a batch, ``seconds`` is an equal share of the batch's time.
    """

    text: str
    tokens_in: int
    tokens_out: int
    seconds: float


class Reader(Protocol):
    """Answers prompts. ``identity`` says what decides the answers, as JSON values: the key of cached ones."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Model and settings."""
        ...

    def answers(self, prompts: Sequence[str]) -> Iterator[tuple[int, Answer]]:
        """The position of each prompt and its answer, in any order, as soon as they are there."""
        ...


def prompt_for(question: str, context: str) -> str:
    """The reader's prompt; without any context, one that asks for an answer from memory."""
    if not context.strip():
        return WITHOUT_CONTEXT.format(question=question)
    return WITH_CONTEXT.format(context=context, question=question)


def prompt_digest(prompt: str) -> str:
    """A key for the answer to a prompt."""
    return hashlib.blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def first_line(text: str) -> str:
    """The answer in what a model wrote: its first line, without quotes and a full stop around it."""
    line = next((line for line in text.strip().splitlines() if line.strip()), "")
    return line.strip().removeprefix("Answer:").strip(" \t.\"'“”")


class LocalReader:
    """A decoder on this machine, greedy, in batches.

    Args:
        model: a name that `rag.models.resolve` takes.
        device, dtype: where and as what it is loaded.
        max_new_tokens: longest answer.
        batch_tokens: most prompt tokens, padding included, of one batch.
        threads: CPU threads of torch, process-wide; None leaves them as they are.

    The prompt goes through the model's chat template, where it has one. Padding is on the left and masked.

    Raises:
        ConfigError: a setting below 1.
        ModelNotFoundError: see `rag.models.resolve`.
    """

    def __init__(
        self,
        model: str = "smollm2-135m",
        *,
        device: str = "cpu",
        dtype: DType = "float32",
        max_new_tokens: int = 32,
        batch_tokens: int = 8192,
        threads: int | None = None,
    ) -> None:
        for name, value in (("max_new_tokens", max_new_tokens), ("batch_tokens", batch_tokens)):
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, given {value}")
        self.model = model
        self._device = device
        self._dtype = dtype
        self._max_new_tokens = max_new_tokens
        self._batch_tokens = batch_tokens
        self._threads = threads

    @cached_property
    def _loaded(self) -> tuple[Any, Any, str]:
        import torch

        from rag.models import fingerprint, resolve
        from rag.models.load import load_causal_lm

        if self._threads is not None:
            torch.set_num_threads(self._threads)
        resolved = resolve(self.model, kind="llm")
        model, tokenizer = load_causal_lm(resolved, device=self._device, dtype=self._dtype)
        return model, tokenizer, fingerprint(resolved.path)

    @cached_property
    def _plain(self) -> Any:
        """A copy of the tokenizer to which a document's ``<|im_end|>`` is text."""
        from tokenizers import Tokenizer

        plain = Tokenizer.from_str(self._loaded[1].backend_tokenizer.to_str())
        plain.no_truncation()
        plain.no_padding()
        plain.encode_special_tokens = True
        return plain

    @cached_property
    def _frame(self) -> tuple[list[int], list[int]]:
        """Token ids before and after the prompt: the chat template's, or the model's own first token."""
        tokenizer = self._loaded[1]
        if not tokenizer.chat_template:
            return tokenizer("", verbose=False)["input_ids"], []
        turn = [{"role": "user", "content": _PLACE}]
        text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        before, _, after = text.partition(_PLACE)
        return tuple(tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, after))

    @property
    def identity(self) -> Mapping[str, Any]:
        """Model, its weights' fingerprint and the longest answer."""
        return {
            "reader": self.model,
            "fingerprint": self._loaded[2],
            "dtype": self._dtype,
            "max_new_tokens": self._max_new_tokens,
        }

    @property
    def positions(self) -> int:
        """The longest prompt and answer together, in tokens."""
        return int(self._loaded[0].config.max_position_embeddings)

    def encode(self, prompt: str) -> list[int]:
        """Token ids of a prompt in the model's chat template; control tokens in it are read as plain letters.

        Raises:
            LimitError: longer than the model reads.
        """
        before, after = self._frame
        ids = [*before, *self._plain.encode(prompt, add_special_tokens=False).ids, *after]
        if len(ids) + self._max_new_tokens > self.positions:
            raise self._too_long(len(ids), self._max_new_tokens)
        return ids

    def answers(self, prompts: Sequence[str]) -> Iterator[tuple[int, Answer]]:
        """See `Reader.answers`: prompts of similar length are read together, the shortest first.

        Raises:
            LimitError: a prompt longer than the model reads.
        """
        encoded = [self.encode(prompt) for prompt in prompts]
        for batch in _batches([len(ids) for ids in encoded], self._batch_tokens):
            start = time.perf_counter()
            written = self._generate([encoded[i] for i in batch])
            seconds = (time.perf_counter() - start) / len(batch)
            for i, ids in zip(batch, written, strict=True):
                text = self._loaded[1].decode(ids, skip_special_tokens=True)
                yield i, Answer(first_line(text), len(encoded[i]), len(ids), seconds)

    def _generate(self, batch: Sequence[Sequence[int]]) -> list[list[int]]:
        import torch
        from transformers import GenerationConfig

        model, tokenizer, _ = self._loaded
        end = model.generation_config.eos_token_id
        ends = {*([end] if isinstance(end, int) else end or []), tokenizer.eos_token_id} - {None}
        width = max(map(len, batch))
        pad = next(iter(ends), 0)
        ids = torch.tensor([[pad] * (width - len(row)) + list(row) for row in batch])
        seen = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in batch])
        settings = GenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=self._max_new_tokens, do_sample=False, eos_token_id=sorted(ends) or None, pad_token_id=pad
        )
        with torch.inference_mode():
            out = model.generate(ids.to(model.device), attention_mask=seen.to(model.device), generation_config=settings)
        return [_until(row, ends) for row in out[:, width:].tolist()]

    def log_likelihood(self, prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
        """Mean natural log probability per token of each answer, written after its prompt (teacher forcing).

        Raises:
            InputError: an answer without any token.
            LimitError: longer than the model reads.
            ModelOutputError: the model gave NaN or infinity.
        """
        import torch

        model, tokenizer, _ = self._loaded
        values = []
        for prompt, answer in zip(prompts, answers, strict=True):
            before = self.encode(prompt)
            after = tokenizer(answer, add_special_tokens=False, verbose=False)["input_ids"]
            if not after:
                raise InputError(f"the likelihood of an answer without any token is not defined, given {shown(answer)}")
            if len(before) + len(after) > self.positions:
                raise self._too_long(len(before), len(after))
            ids = torch.tensor([[*before, *after]], device=model.device)
            with torch.inference_mode():
                logits = model(ids, logits_to_keep=len(after) + 1).logits[0, :-1].double()
                chosen = logits.log_softmax(-1).gather(1, ids[0, len(before) :, None])
            value = float(chosen.mean())
            if not math.isfinite(value):
                raise ModelOutputError(f"reader {self.model!r} gave an answer the log likelihood {value}")
            values.append(value)
        return values

    def _too_long(self, prompt: int, answer: int) -> LimitError:
        return LimitError(
            f"the prompt has {prompt} tokens; reader {self.model!r} accepts {self.positions - answer}: "
            "nothing is cut, give it less context"
        )


def _batches(sizes: Sequence[int], most: int) -> Iterator[list[int]]:
    """Positions in groups whose count times longest is at most ``most``; one that is longer stands alone."""
    batch: list[int] = []
    for i in sorted(range(len(sizes)), key=lambda i: sizes[i]):
        if batch and (len(batch) + 1) * sizes[i] > most:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _until(ids: Sequence[int], ends: set[int]) -> list[int]:
    """What stands before the first end token."""
    return list(ids[: next((i for i, token in enumerate(ids) if token in ends), len(ids))])
