"""Keeps the embeddings of documents seen before, within a bound in bytes."""

from __future__ import annotations

import threading
from hashlib import blake2b

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from rag.errors import BudgetError

_ENTRY_BYTES = 256  # what an entry costs beside its numbers: the digest, the array object, its place in the table


class EmbeddingCache:
    """Text to its window embeddings (w, dimension); the least recently used go first. Safe for many threads.

    Texts themselves are not kept, only their 128-bit BLAKE2 digests.

    Raises:
        BudgetError: ``max_bytes`` is negative.
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise BudgetError(f"cache_bytes must be at least 0, given {max_bytes}")
        self._entries: LRUCache[bytes, NDArray[np.float32]] = LRUCache(max_bytes, getsizeof=_cost)
        self._lock = threading.Lock()

    def get(self, text: str) -> NDArray[np.float32] | None:
        """The embeddings of ``text``, or None."""
        with self._lock:
            return self._entries.get(_key(text))

    def put(self, text: str, windows: NDArray[np.float32]) -> None:
        """Keep ``windows`` (not copied; do not change them); one larger than the whole cache is not kept."""
        if _cost(windows) <= self._entries.maxsize:
            with self._lock:
                self._entries[_key(text)] = windows

    @property
    def nbytes(self) -> int:
        """Bytes in use, at most ``max_bytes``."""
        return int(self._entries.currsize)


def _cost(windows: NDArray[np.float32]) -> int:
    return windows.nbytes + _ENTRY_BYTES


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
