"""Probabilities of given words after given words, from a decoder with its language-model head."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rag.errors import ConfigError, ModelOutputError
from rag.models.catalog import DEFAULT_LLM
from rag.models.store import ModelStore
from rag.types import Span

if TYPE_CHECKING:
    import torch

    from rag.models.load import DType

TokenIds = tuple[int, ...]

_LOGIT_ROWS = 512  # most rows of logits at once: 300 MB with a vocabulary of 150,000


class CausalLM:
    """Teacher-forced log-probabilities, no generation. Resolved and loaded at the first use; thread-safe.

    Args:
        model_name: anything `rag.models.resolve.resolve` takes for an "llm".
        device: a torch device, or "auto" for the best there is.
        dtype: the weights' type.
        batch_tokens: most tokens of one forward pass, padding counted (a longer text is a pass of its own).
        store: the model store; None means the default one.
        offline: fetch nothing.
    """

    def __init__(
        self,
        model_name: str = DEFAULT_LLM,
        device: str = "cpu",
        *,
        dtype: DType = "float32",
        batch_tokens: int = 4096,
        store: ModelStore | None = None,
        offline: bool = False,
    ) -> None:
        if batch_tokens < 1:
            raise ConfigError(f"batch_tokens must be at least 1, given {batch_tokens}")
        self.model_name = model_name
        self.device = device
        self.dtype: DType = dtype
        self.batch_tokens = batch_tokens
        self._store = store
        self._offline = offline
        self._loaded: tuple[Any, Any, Any] | None = None
        self._lock = threading.RLock()

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, for its chat template."""
        return self._parts()[1]

    @property
    def positions(self) -> int:
        """The longest prompt, in tokens."""
        return int(self._parts()[0].config.max_position_embeddings)

    def frame(self, text: str, *, start: bool = False) -> TokenIds:
        """Tokens of wording of ours, control tokens read as such; ``start`` puts the model's own first token before."""
        ids = self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=start).ids
        return tuple(ids)

    def content(self, text: str) -> tuple[TokenIds, tuple[Span, ...]]:
        """Tokens of a user's text and the character range of each; control tokens in it are read as plain letters."""
        encoding = self._parts()[2].encode(text, add_special_tokens=False)
        return tuple(encoding.ids), tuple(Span(start, end) for start, end in encoding.offsets)

    def log_probabilities(self, contexts: Sequence[TokenIds], continuation: TokenIds) -> torch.Tensor:
        """log P(token | context, tokens before it) of each token of ``continuation``: (contexts, tokens), float32.

        Contexts of like length share a pass; where a context is computed changes nothing beyond rounding.

        Raises:
            ModelOutputError: the model gave a value that is not finite.
        """
        import torch

        if not continuation or not all(contexts):
            raise ConfigError("log_probabilities needs at least one token in the continuation and in every context")
        out = torch.zeros(len(contexts), len(continuation))
        for batch in self._batches([len(ids) + len(continuation) - 1 for ids in contexts], len(continuation)):
            with self._lock, torch.inference_mode():
                out[batch] = self._forward([contexts[i] for i in batch], continuation)
        if not bool(torch.isfinite(out).all()):
            raise ModelOutputError(f"{self.model_name} produced a probability that is not a finite number")
        return out

    def _batches(self, lengths: Sequence[int], rows: int) -> Iterator[list[int]]:
        """Positions in ``lengths``, longest first, as many at a time as the bounds allow."""
        order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
        start = 0
        while start < len(order):
            size = max(1, min(self.batch_tokens // lengths[order[start]], _LOGIT_ROWS // rows))
            yield order[start : start + size]
            start += size

    def _forward(self, contexts: Sequence[TokenIds], continuation: TokenIds) -> torch.Tensor:
        """One padded pass. Padding is on the left, so that the rows that are read end every line."""
        import torch

        model = self._parts()[0]
        lines = [[*ids, *continuation[:-1]] for ids in contexts]
        longest = max(map(len, lines))
        gaps = [longest - len(line) for line in lines]
        ids = torch.tensor([[line[0]] * gap + line for gap, line in zip(gaps, lines, strict=True)])
        seen = torch.arange(longest) >= torch.tensor(gaps)[:, None]
        logits = model(
            input_ids=ids.to(model.device),
            attention_mask=seen.long().to(model.device),
            position_ids=(seen.long().cumsum(1) - 1).clamp(min=0).to(model.device),
            use_cache=False,
            logits_to_keep=len(continuation),
        ).logits.float()
        wanted = torch.tensor(continuation, device=logits.device).expand(len(lines), -1)[..., None]
        chances: torch.Tensor = (logits.gather(-1, wanted)[..., 0] - logits.logsumexp(-1)).cpu()
        return chances

    def _parts(self) -> tuple[Any, Any, Any]:
        """Model, tokenizer, and the copy of it that reads control tokens as plain letters (never changed after)."""
        with self._lock:
            if self._loaded is None:
                from tokenizers import Tokenizer

                from rag.models.load import load_causal_lm
                from rag.models.resolve import resolve
                from rag.resources import resolve_device

                found = resolve(self.model_name, kind="llm", store=self._store, offline=self._offline)
                model, tokenizer = load_causal_lm(found, device=resolve_device(self.device), dtype=self.dtype)
                plain = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
                plain.no_truncation()
                plain.no_padding()
                plain.encode_special_tokens = True
                self._loaded = model, tokenizer, plain
            return self._loaded
