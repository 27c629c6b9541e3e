"""Scores of (query, text) pairs from a cross-encoder, all of a text however long it is."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag.errors import ConfigError, ModelOutputError, QueryTooLongError
from rag.models.store import ModelStore

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_LEAST_ROOM = 16
_USUAL = 512
_NO_LIMIT = 1_000_000  # a tokenizer without a limit of its own says 10 ** 30


class PairScores(NamedTuple):
    """Scores of windows (w,) and, per window, the position of its text (w,), ascending."""

    scores: NDArray[np.float64]
    owners: NDArray[np.int64]


class PairScorer:
    """A cross-encoder of sentence-transformers. Resolved and loaded at the first use; thread-safe.

    Args:
        model_name: a local folder or a hub name (see `rag.models.resolve`).
        device: a torch device, or "auto" for the best there is.
        batch_size: windows per forward pass.
        overlap: tokens that a window of a long text shares with the one before (half of a window at most).
        store: the model store; None means the default one.
        offline: fetch nothing.
    """

    def __init__(
        self,
        model_name: str,
        device: str = "cpu",
        batch_size: int = 32,
        *,
        overlap: int = 32,
        store: ModelStore | None = None,
        offline: bool = False,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, given {batch_size}")
        if overlap < 0:
            raise ConfigError(f"overlap must be at least 0 tokens, given {overlap}")
        self.model_name = model_name
        self.device = device
        self.batch_size = batch_size
        self._overlap = overlap
        self._store = store
        self._offline = offline
        self._loaded: CrossEncoder | None = None
        # Loading, tokenising and the forward pass, as in `rag.models.embedder.Embedder`.
        self._lock = threading.RLock()

    @property
    def max_tokens(self) -> int:
        """Tokens of one pass: the query, a window of the text, and the model's own separators."""
        model: Any = self._model()
        stated = getattr(model, "max_seq_length", None) or model.tokenizer.model_max_length
        positions = getattr(model.model.config, "max_position_embeddings", None) or _USUAL
        # Models of RoBERTa's family keep two positions to themselves, which only their tokenizer's limit says.
        return int(min(stated, positions) if stated < _NO_LIMIT else positions - 2)

    def score(self, query: str, texts: Sequence[str]) -> PairScores:
        """Score ``query`` with overlapping windows that together cover every token of every text.

        The numbers are what ``CrossEncoder.predict`` gives: logits through the activation that the model names.

        Raises:
            QueryTooLongError: the query leaves no room for a text beside it.
            ModelOutputError: a score that is not finite.
        """
        if not texts:
            return PairScores(np.zeros(0), np.zeros(0, dtype=np.int64))
        encoding = self._windows(query, texts)
        owners = np.asarray(encoding.pop("overflow_to_sample_mapping"), dtype=np.int64)
        scores = self._forward(dict(encoding))
        if not np.isfinite(scores).all():
            raise ModelOutputError(f"{self.model_name} produced a score that is not a finite number")
        return PairScores(scores, owners)

    def _windows(self, query: str, texts: Sequence[str]) -> Any:
        with self._lock:
            tokenizer, most = self._model().tokenizer, self.max_tokens
            frame = tokenizer.num_special_tokens_to_add(pair=True)
            taken = len(tokenizer(query, add_special_tokens=False, truncation=False, verbose=False)["input_ids"])
            room = most - frame - taken
            if room < _LEAST_ROOM:
                raise QueryTooLongError(
                    f"query has {taken} tokens; accepted by {self.model_name!r}, which reads {most} with the "
                    f"document: up to {most - frame - _LEAST_ROOM}"
                )
            return tokenizer(
                [query] * len(texts),
                list(texts),
                truncation="only_second",
                max_length=most,
                stride=min(self._overlap, room // 2),
                return_overflowing_tokens=True,
                padding=False,
            )

    def _forward(self, windows: dict[str, list[list[int]]]) -> NDArray[np.float64]:
        import torch

        lengths = [len(ids) for ids in windows["input_ids"]]
        out = np.zeros(len(lengths))
        # Longest first: windows of like length share a batch, so little is padded.
        order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            with self._lock, torch.inference_mode():
                model: Any = self._model()
                features = {name: [rows[i] for i in batch] for name, rows in windows.items()}
                padded = model.tokenizer.pad(features, return_tensors="pt").to(model.model.device)
                # In float64 a sigmoid keeps apart what is nearly 1.
                out[batch] = model.activation_fn(model.model(**padded).logits.double())[:, 0].cpu().numpy()
        return out

    def _model(self) -> CrossEncoder:
        with self._lock:
            if self._loaded is None:
                from rag.models.load import load_cross_encoder
                from rag.models.resolve import resolve
                from rag.resources import resolve_device

                found = resolve(self.model_name, kind="cross-encoder", store=self._store, offline=self._offline)
                self._loaded = load_cross_encoder(found, device=resolve_device(self.device))
            return self._loaded
