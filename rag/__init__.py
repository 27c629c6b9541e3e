"""Decides what a RAG application puts in front of its LLM: retrieve, rerank by attention, compress, order.

    from rag import Pipeline

    result = Pipeline().run("how deep is the harbour?", ["The harbour is 14 m deep.", "Boats are blue."])
    print(result.context)

Everything named here is loaded on first use: ``import rag`` itself imports nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag.attention.engine import AttentionEngine
    from rag.attention.types import AttentionMap, AttentionSpec, Head
    from rag.budget import Budget
    from rag.config import Settings
    from rag.corpus import read_documents
    from rag.errors import RagError
    from rag.models.embedder import Embedder
    from rag.pipeline import Pipeline
    from rag.results import ContextDocument, ContextResult, StageTrace
    from rag.types import CompressedDocument, Document, Query, ScoredDocument, Span

    __version__: str

_HOMES = {
    "rag.attention.engine": ("AttentionEngine",),
    "rag.attention.types": ("AttentionMap", "AttentionSpec", "Head"),
    "rag.budget": ("Budget",),
    "rag.config": ("Settings",),
    "rag.corpus": ("read_documents",),
    "rag.errors": ("RagError",),
    "rag.models.embedder": ("Embedder",),
    "rag.pipeline": ("Pipeline",),
    "rag.results": ("ContextDocument", "ContextResult", "StageTrace"),
    "rag.types": ("CompressedDocument", "Document", "Query", "ScoredDocument", "Span"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AttentionEngine",
    "AttentionMap",
    "AttentionSpec",
    "Budget",
    "CompressedDocument",
    "ContextDocument",
    "ContextResult",
    "Document",
    "Embedder",
    "Head",
    "Pipeline",
    "Query",
    "RagError",
    "ScoredDocument",
    "Settings",
    "Span",
    "StageTrace",
    "read_documents",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("rag-context")
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
