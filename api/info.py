"""What ``GET /info`` tells: model, limits, defaults, versions, cache."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rag.api.schemas import InfoResponse
from rag.models import public_name

if TYPE_CHECKING:
    from rag.api.service import ContextService
    from rag.attention.types import AttentionSpec, Head

_PACKAGES = ("rag-context", "torch", "transformers", "sentence-transformers", "fastapi")


def info(service: ContextService) -> InfoResponse:
    """A snapshot. Before the models are loaded only their configuration is known."""
    settings = service.pipeline.settings
    described = service.pipeline.describe()
    model: dict[str, Any] = {
        "name": public_name(settings.model),
        "embedder": public_name(settings.embedder),
        "layout": settings.engine.layout,
        "window_tokens": settings.engine.window_tokens,
        "loaded": service.loaded,
    }
    heads: set[Head] | None = set()
    cache: dict[str, int] = {}
    if service.loaded:
        engine: Any = service.pipeline.engine
        model |= {"layers": engine.layers, "heads_per_layer": engine.heads_per_layer}
        heads = _heads(service.pipeline.specs())
        cache = asdict(engine.cache_stats())
    limits = settings.limits.model_dump(mode="json")
    limits |= {"body_bytes": int(settings.server.max_body_bytes), "queue": service.pool.limit}
    return InfoResponse(
        versions={"python": platform.python_version()} | {name: version(name) for name in _PACKAGES},
        model=model,
        heads=None if heads is None else tuple(str(head) for head in sorted(heads)),
        limits=limits,
        defaults={name: described[name] for name in ("top_n", "retrieve_k", "budget")},
        stages={name: _public(described[name]) for name in ("retriever", "reranker", "compressor", "ordering")},
        cache=cache,
    )


def _public(value: Any) -> Any:
    """A stage and its options, without the folders of files that an option names."""
    if isinstance(value, Mapping):
        return {key: _public(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [_public(of) for of in value]
    return public_name(value) if isinstance(value, str) else value


def _heads(specs: Sequence[AttentionSpec]) -> set[Head] | None:
    """The heads that any stage reads; None where a stage reads all."""
    heads: set[Head] = set()
    for spec in specs:
        if spec.heads is None:
            return None
        heads |= set(spec.heads)
    return heads
