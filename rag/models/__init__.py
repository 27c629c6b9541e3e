"""Models by name: resolved to a folder on this machine (`resolve`), kept in a store, loaded without a network."""

from rag.models.catalog import DEFAULT_EMBEDDER, DEFAULT_LLM, CatalogEntry, ModelKind, WheelSpec, catalog
from rag.models.causal import CausalLM
from rag.models.cross_encoder import PairScorer
from rag.models.embedder import Embedder
from rag.models.fingerprints import fingerprint
from rag.models.manifest import Manifest
from rag.models.resolve import ResolvedModel, public_name, resolve
from rag.models.store import ModelStore

__all__ = [
    "DEFAULT_EMBEDDER",
    "DEFAULT_LLM",
    "CatalogEntry",
    "CausalLM",
    "Embedder",
    "Manifest",
    "ModelKind",
    "ModelStore",
    "PairScorer",
    "ResolvedModel",
    "WheelSpec",
    "catalog",
    "fingerprint",
    "public_name",
    "resolve",
]
