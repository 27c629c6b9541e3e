"""An embedder that remembers, within a bound in bytes, what it embedded before."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from rag.digests import text_digest
from rag.embedding import Matrix, TextEmbedder, checked_texts, mean_of_windows
from rag.errors import BudgetError

DEFAULT_BYTES = 256 * 2**20

_ENTRY_BYTES = 256  # what an entry costs beside its numbers: the digest, the array object, its place in the table


class KeptEmbeddings:
    """A `rag.embedding.TextEmbedder` over another one: a text is embedded once as long as there is room for it.

    All stages of a pipeline share one, so that a question is embedded once and a passage seen before not at all.
    Texts are not kept, only their 128-bit BLAKE2 digests; the least recently used go first. Everything else that the
    embedder has is handed on. Safe for many threads.

    Args:
        embedder: what embeds the rest.
        max_bytes: memory for embeddings; 0 keeps none.

    Raises:
        BudgetError: ``max_bytes`` is negative.
    """

    def __init__(self, embedder: TextEmbedder, max_bytes: int = DEFAULT_BYTES) -> None:
        if max_bytes < 0:
            raise BudgetError(f"embedding_cache_bytes must be at least 0, given {max_bytes}")
        self.embedder = embedder
        self._entries: LRUCache[bytes, Matrix] = LRUCache(max_bytes, getsizeof=_cost)
        self._lock = threading.Lock()

    @classmethod
    def over(cls, embedder: TextEmbedder, max_bytes: int = DEFAULT_BYTES) -> KeptEmbeddings:
        """``embedder`` itself where it remembers already."""
        return embedder if isinstance(embedder, cls) else cls(embedder, max_bytes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.embedder, name)

    @property
    def nbytes(self) -> int:
        """Bytes in use, at most ``max_bytes``."""
        return int(self._entries.currsize)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One vector per text, as `rag.models.embedder.Embedder.encode` has it."""
        return mean_of_windows(*self.encode_windows(texts), len(texts))

    def encode_windows(self, texts: Sequence[str]) -> tuple[Matrix, NDArray[np.integer]]:
        """The vectors of every text's windows, and the position of the text that each comes from.

        Raises:
            NotTextError: ``texts`` is one string, or an element is no string.
        """
        checked = checked_texts(texts)
        if not checked:
            return self.embedder.encode_windows(checked)
        keys = [text_digest(text) for text in checked]
        with self._lock:
            rows = {key: found for key in dict.fromkeys(keys) if (found := self._entries.get(key)) is not None}
        missing = {key: text for key, text in zip(keys, checked, strict=True) if key not in rows}
        if missing:
            matrix, owners = self.embedder.encode_windows(list(missing.values()))
            bounds = np.searchsorted(owners, np.arange(len(missing) + 1))
            for place, key in enumerate(missing):
                # A copy, and not a view that would keep the whole matrix alive.
                rows[key] = matrix[bounds[place] : bounds[place + 1]].copy()
            with self._lock:
                for key in missing:
                    if _cost(rows[key]) <= self._entries.maxsize:
                        self._entries[key] = rows[key]
        windows = [rows[key] for key in keys]
        return np.concatenate(windows), np.repeat(np.arange(len(windows)), [len(of) for of in windows])


def _cost(windows: Matrix) -> int:
    return windows.nbytes + _ENTRY_BYTES
