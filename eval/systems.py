"""The systems of an evaluation: retrievers over a whole collection, and rerankers of what one of them found."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rag.errors import ConfigError, InputError
from rag.eval.collections import Collection
from rag.eval.latency import Latency, latency
from rag.eval.retrieval import System
from rag.eval.runs import Run
from rag.stages import Reranker, Retriever
from rag.types import Query, ScoredDocument


@dataclass(frozen=True)
class Found:
    """What a retriever found for every query of a collection, as a `System`."""

    lists: Mapping[str, Sequence[ScoredDocument]]

    def __call__(self, query: Query) -> Sequence[ScoredDocument]:
        """The list of this query."""
        return self.lists[query.id]


@dataclass(frozen=True)
class Reranked:
    """A reranker over found lists, as a `System` that also times itself.

    Every list is reranked twice: the first time some documents have not been read yet (``cold``), the
    second time all of them have (``warm``), if the engine's cache holds at least one list. ``begin`` is
    called before the first list: it should forget what an earlier system has read.
    """

    found: Found
    reranker: Reranker
    begin: Callable[[], None] = lambda: None
    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)

    def __call__(self, query: Query) -> Sequence[ScoredDocument]:
        """The list of this query in its new order."""
        if not self.cold:
            self.begin()
        for seconds in (self.cold, self.warm):
            start = time.perf_counter()
            ranked = self.reranker.rerank(query, self.found(query))
            seconds.append(time.perf_counter() - start)
        return ranked

    def timings(self) -> dict[str, Latency]:
        """Seconds per query, cold and warm, of the queries that were run (not read from an earlier run)."""
        return {"cold": latency(self.cold), "warm": latency(self.warm)} if self.cold else {}


def found(collection: Collection, retriever: Retriever, k: int) -> Found:
    """Index the collection's documents and retrieve ``k`` for each query."""
    lists = retriever.index(collection.documents).retrieve(collection.queries, k)
    return Found({query.id: items for query, items in zip(collection.queries, lists, strict=True)})


def from_run(collection: Collection, run: Run, k: int) -> Found:
    """The ``k`` best documents per query of a run that was made elsewhere, such as a file in the TREC form.

    Raises:
        InputError: the run names a document that the collection lacks.
    """
    documents = {document.id: document for document in collection.documents}
    lists: dict[str, list[ScoredDocument]] = {}
    for query in collection.queries:
        lists[query.id] = []
        for rank, (name, score) in enumerate(run.get(query.id, ())[:k], start=1):
            if name not in documents:
                raise InputError(f"query {query.id!r}: the run has document {name!r}, which {collection.name} lacks")
            lists[query.id].append(ScoredDocument(documents[name], score, rank))
    return Found(lists)


def systems(
    collection: Collection,
    given: Mapping[str, Found],
    retrievers: Mapping[str, Retriever],
    rerankers: Mapping[str, Reranker],
    *,
    candidates: str,
    k: int,
    begin: Callable[[], None],
) -> dict[str, System]:
    """Given lists, all retrievers, and all rerankers of the ``k`` best documents of the list named ``candidates``.

    Raises:
        ConfigError: ``candidates`` names none of the lists.
    """
    names = (*given, *retrievers)
    if candidates not in names:
        raise ConfigError(f"candidates from {candidates!r}; accepted: {', '.join(names) or 'none given'}")
    made = {name: found(collection, retriever, k) for name, retriever in retrievers.items()}
    lists = {**given, **made}
    reranked = {name: Reranked(lists[candidates], reranker, begin) for name, reranker in rerankers.items()}
    return {**lists, **reranked}
