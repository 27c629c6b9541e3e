"""Sentence embeddings that several threads may ask for at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rag.embedding import Matrix, checked_texts, mean_of_windows
from rag.errors import ConfigError, ModelOutputError
from rag.models.catalog import DEFAULT_EMBEDDER
from rag.models.store import ModelStore

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BATCH_TOKENS: Mapping[str, int] = {"cpu": 1024, "cuda": 16384}
"""Tokens of one pass by device (any other as cuda): on a CPU few, since what does not stay in its caches
takes half as long again."""


class Embedder:
    """Texts to unit vectors. The model is resolved and loaded at the first use; all methods are thread-safe.

    Args:
        model_name: anything `rag.models.resolve.resolve` takes.
        device: a torch device.
        batch_tokens: most tokens of one forward pass, padding counted; None for `BATCH_TOKENS`.
        store: the model store; None means the default one.
        offline: fetch nothing.
    """

    def __init__(
        self,
        model_name: str = DEFAULT_EMBEDDER,
        device: str = "cpu",
        batch_tokens: int | None = None,
        *,
        store: ModelStore | None = None,
        offline: bool = False,
    ) -> None:
        if batch_tokens is not None and batch_tokens < 1:
            raise ConfigError(f"batch_tokens must be at least 1, given {batch_tokens}")
        self.model_name = model_name
        self.device = device
        self.batch_tokens = batch_tokens or BATCH_TOKENS.get(device, BATCH_TOKENS["cuda"])
        self._store = store
        self._offline = offline
        self._loaded: SentenceTransformer | None = None
        # One lock for loading, tokenising and the forward pass: a fast tokenizer that two threads
        # use with different truncation settings fails with "Already borrowed".
        self._lock = threading.RLock()

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        model: Any = self._model()
        # The name up to sentence-transformers 5.0 and the one since, under which the old one is deprecated.
        of = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
        return int(of() or 0)

    @property
    def max_tokens(self) -> int:
        """How many of a text's own tokens the model reads at once (special tokens not counted)."""
        return self._window() - int(self._tokenizer().num_special_tokens_to_add())

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens; above `max_tokens`, it is read in windows."""
        if not texts:
            return []
        with self._lock:
            encoding = self._tokenizer()(_clean(texts), add_special_tokens=False, truncation=False, verbose=False)
        return [len(ids) for ids in encoding["input_ids"]]

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One vector per text: float32, shape (n, d), L2-normalised; (0, d) for no texts.

        A text above `max_tokens` is the mean of its windows' vectors (see `encode_windows`), normalised again:
        all of it counts. Where one passage of it may be what matters, compare with its windows instead.

        Raises:
            NotTextError: an element is not a string; names its position.
            ModelOutputError: the model produced a value that is not finite.
        """
        return mean_of_windows(*self.encode_windows(texts), len(texts))

    def encode_windows(self, texts: Sequence[str], overlap: int = 32) -> tuple[Matrix, npt.NDArray[np.int64]]:
        """Vectors of overlapping token windows that together cover every token of every text.

        Returns:
            (vectors, owners): float32 (w, d), L2-normalised, and the position in ``texts`` that each
            window comes from, ascending. Each text has at least one window. The score of a text is
            usually the maximum over its windows.

        Raises:
            ConfigError: an overlap that is negative or not below `max_tokens`.
            NotTextError, ModelOutputError: as `encode`.
        """
        if not 0 <= overlap < self.max_tokens:
            raise ConfigError(f"overlap must be at least 0 and below {self.max_tokens} tokens, given {overlap}")
        windows, owners = self._windows(texts, overlap)
        return self._embed(windows), owners

    def _model(self) -> SentenceTransformer:
        with self._lock:
            if self._loaded is None:
                from rag.models.load import load_embedder
                from rag.models.resolve import resolve

                found = resolve(self.model_name, kind="embedder", store=self._store, offline=self._offline)
                self._loaded = load_embedder(found, device=self.device)
            return self._loaded

    def _tokenizer(self) -> Any:
        return self._model().tokenizer

    def _window(self) -> int:
        """Tokens of one forward pass, special tokens included."""
        return int(self._model().max_seq_length or self._tokenizer().model_max_length)

    def _windows(self, texts: Sequence[str], overlap: int) -> tuple[list[list[int]], npt.NDArray[np.int64]]:
        """Token ids (special tokens included) of the windows of all texts, and each window's text."""
        if not texts:
            return [], np.zeros(0, dtype=np.int64)
        with self._lock:
            encoding = self._tokenizer()(
                _clean(texts),
                truncation=True,
                max_length=self._window(),
                stride=overlap,
                return_overflowing_tokens=True,
                padding=False,
            )
        return encoding["input_ids"], np.asarray(encoding["overflow_to_sample_mapping"], dtype=np.int64)

    def _batches(self, windows: Sequence[list[int]]) -> Iterator[list[int]]:
        """Positions of the windows that share a pass: longest first, so that those of like length meet."""
        order = sorted(range(len(windows)), key=lambda index: -len(windows[index]))
        start = 0
        while start < len(order):
            size = max(1, self.batch_tokens // len(windows[order[start]]))
            yield order[start : start + size]
            start += size

    def _embed(self, windows: Sequence[list[int]]) -> Matrix:
        import torch

        out = np.zeros((len(windows), self.dimension), dtype=np.float32)
        for batch in self._batches(windows):
            with self._lock, torch.inference_mode():
                model = self._model()
                features = self._tokenizer().pad({"input_ids": [windows[i] for i in batch]}, return_tensors="pt")
                vectors = model(dict(features.to(model.device)))["sentence_embedding"].float()
                out[batch] = torch.nn.functional.normalize(vectors, dim=1).cpu().numpy()
        if not np.isfinite(out).all():
            raise ModelOutputError(f"{self.model_name} produced an embedding that is not finite")
        return out


def _clean(texts: Sequence[str]) -> list[str]:
    """The texts, checked; a lone surrogate, which no tokenizer takes, becomes a question mark."""
    return [text.encode("utf-8", "replace").decode("utf-8") for text in checked_texts(texts)]
