"""Which systems an evaluation compares: given runs, single stages, whole pipelines; what they share is made once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rag import registry
from rag.config import Settings, StageSettings
from rag.errors import ConfigError, shown
from rag.eval.collections import Collection
from rag.eval.latency import Latency
from rag.eval.retrieval import System, digest_of
from rag.eval.runs import Run
from rag.eval.stage_identity import stage_identity
from rag.eval.systems import Found, Reranked, found, from_run, tokens_per_query
from rag.resources import Resources
from rag.stages import Retriever
from rag.types import Document, Query, ScoredDocument

_PARTS = ("engine", "embedder")


class Lineup:
    """The systems of one evaluation by label, with what decides each of them.

    Models are loaded once per settings that concern them, a retriever indexes once however many systems use its list,
    and with ``store`` (a folder) lists are read from it the next time.

    Args:
        collection: its documents are retrieved from.
        k: how many documents are retrieved for single stages and taken from given runs.
        remove_self: documents that carry their query's own id are left out of every list, before reranking.
        store: where lists are kept, see `rag.eval.systems.found`.
        progress: show progress bars on standard error.

    Raises (from the methods that add):
        ConfigError: a label that is taken, or a stage or option that is not accepted.
    """

    def __init__(
        self,
        collection: Collection,
        k: int,
        *,
        remove_self: bool = False,
        store: Path | None = None,
        progress: bool = False,
    ) -> None:
        self.collection = collection
        self.k = k
        self.remove_self = remove_self
        self._store = store
        self._progress = progress
        self._resources: dict[str, Resources] = {}
        self._retrievers: dict[str, _IndexedOnce] = {}
        self._lists: dict[str, Found] = {}
        self._reads: dict[str, Resources] = {}
        self.systems: dict[str, System] = {}
        self.identities: dict[str, Any] = {}

    def add_run(self, label: str, run: Run, file: Path | None = None) -> None:
        """A ranking that was made elsewhere."""
        given = from_run(self.collection, run, self.k, remove_self=self.remove_self)
        ids = {query: [item.document.id for item in items] for query, items in given.lists.items()}
        self._add(label, given, {"run": str(file) if file else None, "digest": digest_of(ids)})

    def add_retriever(self, label: str, stage: StageSettings, settings: Settings) -> None:
        """A retriever alone."""
        self._add(label, *self._found(stage, settings, self.k))

    def add_reranker(self, label: str, stage: StageSettings, settings: Settings, candidates: str) -> None:
        """A reranker of the list that the system ``candidates`` gives."""
        given = self.systems.get(candidates)
        if not isinstance(given, Found):
            lists = [name for name, system in self.systems.items() if isinstance(system, Found)]
            raise ConfigError(f"candidates from {candidates!r}; accepted: {', '.join(lists) or 'none given'}")
        self._rerank(label, stage, settings, given, self.identities[candidates])

    def add_pipeline(self, label: str, settings: Settings) -> None:
        """The retriever and the reranker of a pipeline; the first ``retrieve_k`` (or ``top_n``) are reranked."""
        depth = max(settings.retrieve_k, settings.top_n)
        given, identity = self._found(settings.retriever, settings, depth)
        if settings.reranker is None:
            self._add(label, given, identity)
        else:
            self._rerank(label, settings.reranker, settings, given, identity)

    def timings(self) -> dict[str, dict[str, Latency]]:
        """Seconds per query by label and part (``retrieval``, ``cold``, ``warm``), as far as they were measured."""
        timed = {label: system.timings() for label, system in self.systems.items() if hasattr(system, "timings")}
        return {label: parts for label, parts in timed.items() if parts}

    def tokens(self) -> dict[str, dict[str, float]]:
        """Tokens per query that the systems with an attention engine read (see `tokens_per_query`)."""
        read = {}
        for label, resources in self._reads.items():
            system = self.systems[label]
            if isinstance(system, Reranked):
                read[label] = tokens_per_query(system.found, resources.engine().count_tokens)
        return read

    def engines(self) -> list[dict[str, Any]]:
        """What the engines in use say about themselves."""
        used = {id(resources): resources for resources in self._reads.values()}
        return [_engine_info(resources) for resources in used.values()]

    def _add(self, label: str, system: System, identity: Mapping[str, Any]) -> None:
        if label in self.systems:
            raise ConfigError(f"two systems are called {shown(label)}; give one of them a label: LABEL=...")
        self.systems[label] = system
        self.identities[label] = dict(identity)

    def _found(self, stage: StageSettings, settings: Settings, depth: int) -> tuple[Found, dict[str, Any]]:
        """The retriever's list, and what decides it."""
        resources = self._shared(settings)
        identity = {"retriever": stage_identity("retriever", stage, _PARTS), "depth": depth}
        if _takes("retriever", stage, "engine"):
            identity["engine"] = _engine_info(resources)
        if _takes("retriever", stage, "embedder"):
            identity["embedder"] = settings.embedder
        key = digest_of(identity)
        if key not in self._lists:
            # Lists of another depth come from the same index.
            source = digest_of({**identity, "depth": None})
            if source not in self._retrievers:
                built = registry.build("retriever", stage.name, stage.options, _parts(resources))
                self._retrievers[source] = _IndexedOnce(built)
            self._lists[key] = found(
                self.collection,
                self._retrievers[source],
                depth,
                remove_self=self.remove_self,
                store=self._store,
                identity=identity,
                name=stage.name,
                progress=self._progress,
            )
        return self._lists[key], identity

    def _rerank(
        self, label: str, stage: StageSettings, settings: Settings, given: Found, candidates: Mapping[str, Any]
    ) -> None:
        resources = self._shared(settings)
        identity: dict[str, Any] = {"candidates": dict(candidates)}
        identity["reranker"] = stage_identity("reranker", stage, _PARTS)
        reads = _takes("reranker", stage, "engine")
        if reads:
            identity["engine"] = _engine_info(resources)
        if _takes("reranker", stage, "embedder"):
            identity["embedder"] = settings.embedder
        reranker = registry.build("reranker", stage.name, stage.options, _parts(resources))
        engine: Any = resources.engine() if reads else None
        begin = engine.clear_cache if reads else lambda: None
        self._add(label, Reranked(given, reranker, begin, twice=reads), identity)
        if reads:
            self._reads[label] = resources

    def _shared(self, settings: Settings) -> Resources:
        parts = settings.to_dict()
        key = digest_of({name: parts[name] for name in ("model", "embedder", "device", "threads", "engine")})
        return self._resources.setdefault(key, Resources(settings))


class _IndexedOnce:
    """A retriever over one collection: its index is made on first use, and kept."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever
        self._indexed: Retriever | None = None

    def index(self, documents: Sequence[Document]) -> Retriever:
        """The index, over the documents of the first call."""
        if self._indexed is None:
            self._indexed = self._retriever.index(documents)
        return self._indexed

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[ScoredDocument]]:
        """Asks the retriever as it was given."""
        return (self._indexed or self._retriever).retrieve(queries, k)


def _parts(resources: Resources) -> dict[str, Callable[[], Any]]:
    return {"engine": resources.engine, "embedder": resources.embedder}


def _engine_info(resources: Resources) -> dict[str, Any]:
    engine: Any = resources.engine()
    return dict(engine.info())


def _takes(kind: registry.Kind, stage: StageSettings, part: str) -> bool:
    return part in inspect.signature(registry.stage_class(kind, stage.name)).parameters
