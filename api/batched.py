"""The models as requests see them: what is asked of them waits for the model thread, what is cheap is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from rag.checks import full_text
from rag.digests import text_digest
from rag.types import Document, Query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rag.api.model_thread import ModelThread
    from rag.attention.engine import AttentionEngine
    from rag.attention.types import AttentionMap, AttentionSpec
    from rag.embedding import Matrix, TextEmbedder

_COUNTS_KEPT = 200_000


class BatchedEngine:
    """An `rag.attention.types.Engine` whose passes are shared with other requests.

    In the block layout the scores do not depend on the order of the documents, so that requests over the
    same documents in any order are read as one list. All but `attend` and `count_tokens` is the engine's own.
    """

    def __init__(self, engine: Callable[[], AttentionEngine], thread: ModelThread) -> None:
        self._load = engine
        self._thread = thread
        self._counts: LRUCache[bytes, int] = LRUCache(_COUNTS_KEPT)
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)

    def attend(self, query: Query, documents: Sequence[Document], spec: AttentionSpec) -> AttentionMap:
        """See `rag.attention.engine.AttentionEngine.attend`."""
        from rag.attention.engine import AttentionRequest
        from rag.attention.shared import select

        engine = self._load()
        listed = tuple(documents)
        if engine.layout == "block":
            listed = tuple(sorted(listed, key=lambda document: (document.title, document.text, document.id)))
        answer = self._thread.read(
            AttentionRequest(query, listed, spec),
            listed=text_digest("\0".join(f"{document.title}\0{document.text}" for document in listed)),
            tokens=sum(self.count_tokens([full_text(document) for document in listed])),
            unread=lambda: engine.unread_tokens(listed, spec),
        )
        if listed == tuple(documents) and answer.heads == spec.heads:
            return answer
        chosen = select(answer, documents, spec)
        return replace(chosen, cached_blocks=answer.cached_blocks, encoded_tokens=answer.encoded_tokens)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text; those of texts seen lately are known."""
        keys = [text_digest(text) for text in texts]
        with self._lock:
            known = {key: count for key in keys if (count := self._counts.get(key)) is not None}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            counted = dict(zip(missing, self._load().count_tokens(list(missing.values())), strict=True))
            known |= counted
            with self._lock:
                self._counts.update(counted)
        return [known[key] for key in keys]


class BatchedEmbedder:
    """An `rag.embedding.TextEmbedder` that embeds the texts of several requests together."""

    def __init__(self, embedder: Callable[[], TextEmbedder], thread: ModelThread) -> None:
        self._load = embedder
        self._thread = thread

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)

    def encode(self, texts: Sequence[str]) -> Matrix:
        """See `rag.models.embedder.Embedder.encode`."""
        matrix: Matrix = self._ask("encode", texts)
        return matrix

    def encode_windows(self, texts: Sequence[str]) -> tuple[Matrix, NDArray[np.integer]]:
        """See `rag.models.embedder.Embedder.encode_windows`."""
        found: tuple[Matrix, NDArray[np.integer]] = self._ask("encode_windows", texts)
        return found

    def _ask(self, kind: str, texts: Sequence[str]) -> Any:
        return self._thread.embed(kind, texts) if texts else getattr(self._load(), kind)(texts)
