"""The heavy parts that stages share, made on first use and once, also under threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag.attention.engine import AttentionEngine
    from rag.attention.types import Attender
    from rag.config import Settings
    from rag.embedding import TextEmbedder
    from rag.kept_embeddings import KeptEmbeddings


def resolve_device(device: str) -> str:
    """The best device of this machine for ``auto`` (cuda, then mps, then cpu); any other name as it is."""
    if device != "auto":
        return device
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def load_engine(settings: Settings) -> AttentionEngine:
    """The attention engine that the settings describe; fetches the model where it is not on this machine.

    Raises:
        ModelNotFoundError: the model's name cannot be resolved, or its weights cannot be had.
        ConfigError: a device that this machine does not have.
    """
    from rag.attention.engine import AttentionEngine

    options = settings.engine
    return AttentionEngine(
        settings.model,
        adapter=options.adapter,
        layout=options.layout,
        device=resolve_device(settings.device),
        dtype=options.dtype,
        window_tokens=options.window_tokens,
        overlap_tokens=options.overlap_tokens,
        cache_bytes=options.cache_bytes,
        cache_precision=options.cache_precision or options.dtype,
        store=options.store,
        threads=settings.threads,
    )


class Resources:
    """The attention engine and the embedder of one pipeline; either may be handed in ready made."""

    def __init__(
        self, settings: Settings, engine: Attender | None = None, embedder: TextEmbedder | None = None
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._embedder = None if embedder is None else self._remembering(embedder)
        self._engine_lock = threading.Lock()
        self._embedder_lock = threading.Lock()

    def engine(self) -> Attender:
        """The engine, loaded on the first call."""
        with self._engine_lock:
            if self._engine is None:
                self._engine = load_engine(self._settings)
            return self._engine

    def embedder(self) -> KeptEmbeddings:
        """The embedder, made on the first call; it remembers what it has embedded."""
        with self._embedder_lock:
            if self._embedder is None:
                from rag.models.embedder import Embedder

                device = resolve_device(self._settings.device)
                self._embedder = self._remembering(Embedder(self._settings.embedder, device=device))
            return self._embedder

    def _remembering(self, embedder: TextEmbedder) -> KeptEmbeddings:
        from rag.kept_embeddings import KeptEmbeddings

        return KeptEmbeddings.over(embedder, self._settings.embedding_cache_bytes)
