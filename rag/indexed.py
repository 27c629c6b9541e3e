"""Indices of corpora seen lately: a second question over the same documents builds none."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from cachetools import LRUCache

from rag.stages import Retriever
from rag.types import Document, Query, ScoredDocument

_KEPT_CHARACTERS = 16_000_000


class IndexedCorpora:
    """Retrieves from any corpus with the settings of one retriever; least recently used indices go first.

    Args:
        retriever: what `rag.stages.Retriever.index` is called on.
        kept_characters: how much text the corpora whose indices are kept hold together.
    """

    def __init__(self, retriever: Retriever, kept_characters: int = _KEPT_CHARACTERS) -> None:
        self._retriever = retriever
        self._kept: LRUCache[bytes, tuple[int, Retriever]] = LRUCache(kept_characters, getsizeof=lambda of: of[0])
        self._lock = threading.Lock()

    def retrieve(self, query: Query, documents: Sequence[Document], k: int) -> list[ScoredDocument]:
        """The ``k`` best of ``documents``, as the documents given (an index may have been made of equal ones)."""
        given = {document.id: document for document in documents}
        found = self._index(documents).retrieve([query], k)[0]
        return [replace(item, document=given[item.document.id]) for item in found]

    def _index(self, documents: Sequence[Document]) -> Retriever:
        key, size = _digest(documents)
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None:
            return kept[1]
        made = self._retriever.index(documents)
        if size <= self._kept.maxsize:
            with self._lock:
                self._kept[key] = (size, made)
        return made


def _digest(documents: Sequence[Document]) -> tuple[bytes, int]:
    """What identifies a corpus, and how much text it holds. Lengths keep "ab", "c" from being "a", "bc"."""
    digest = blake2b(digest_size=16)
    characters = 1
    for document in documents:
        for part in (document.id, document.title, document.text):
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
            characters += len(part)
    return digest.digest(), characters
