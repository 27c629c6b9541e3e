"""The systems of an evaluation: retrievers over a whole collection, and rerankers of what one of them found."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag.checks import full_text
from rag.errors import InputError
from rag.eval.collections import Collection
from rag.eval.latency import Latency, latency
from rag.eval.progress import progress_bar
from rag.eval.record_log import record_log
from rag.eval.retrieval import digest_of, fingerprint
from rag.eval.runs import Run
from rag.stages import Reranker, Retriever
from rag.types import Query, ScoredDocument


@dataclass(frozen=True)
class Found:
    """What a retriever found for every query of a collection, as a `System`; ``seconds`` per query, if it was timed."""

    lists: Mapping[str, Sequence[ScoredDocument]]
    seconds: tuple[float, ...] = ()

    def __call__(self, query: Query) -> Sequence[ScoredDocument]:
        """The list of this query."""
        return self.lists[query.id]

    def timings(self) -> dict[str, Latency]:
        """Seconds per query of retrieval, one query at a time; none for a list that was made elsewhere."""
        return {"retrieval": latency(self.seconds)} if self.seconds else {}


@dataclass(frozen=True)
class Reranked:
    """A reranker over found lists, as a `System` that also times itself.

    Every list is reranked twice where ``twice`` says so: the first time some documents have not been read yet
    (``cold``), the second time all of them have (``warm``), if the engine's cache holds at least one list. ``begin`` is
    called before the first list: it should forget what an earlier system has read.
    """

    found: Found
    reranker: Reranker
    begin: Callable[[], None] = lambda: None
    twice: bool = True
    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)

    def __call__(self, query: Query) -> Sequence[ScoredDocument]:
        """The list of this query in its new order."""
        if not self.cold:
            self.begin()
        for seconds in (self.cold, self.warm) if self.twice else (self.cold,):
            start = time.perf_counter()
            ranked = self.reranker.rerank(query, self.found(query))
            seconds.append(time.perf_counter() - start)
        return ranked

    def timings(self) -> dict[str, Latency]:
        """Seconds per query, of retrieval and of reranking cold and warm.

        Of those queries that were run, not read from an earlier evaluation.
        """
        timed = {"cold": self.cold, "warm": self.warm}
        return self.found.timings() | {name: latency(seconds) for name, seconds in timed.items() if seconds}


def found(
    collection: Collection,
    retriever: Retriever,
    k: int,
    *,
    remove_self: bool = False,
    store: Path | None = None,
    identity: Mapping[str, Any] | None = None,
    name: str = "retriever",
    progress: bool = False,
) -> Found:
    """Index the collection's documents and retrieve ``k`` for each query, one at a time.

    Args:
        collection: its documents and queries.
        retriever: not indexed yet.
        k: length of the lists.
        remove_self: leave out a document that carries the query's own id.
        store: a folder that keeps the lists, each as soon as it is there: with the same data, ``identity`` and ``k``
            they are read from it, and where all are there nothing is indexed.
        identity: what decides the lists (retriever, options, models), as JSON values.
        name: what the progress bar calls it.
        progress: show a progress bar on standard error.

    Raises:
        ArtefactError: a file of the store is damaged.
    """
    header = {
        "collection": collection.name,
        "data": fingerprint(collection) if store else None,
        "k": k,
        "remove_self": remove_self,
        "identity": dict(identity or {}),
    }
    documents = {document.id: document for document in collection.documents}
    lists: dict[str, list[ScoredDocument]] = {}
    seconds: dict[str, float] = {}
    index: Retriever | None = None
    path = store / f"{digest_of(header)}.jsonl" if store else None
    with record_log(path, header) as (done, write), progress_bar(progress, len(collection.queries)) as advance:
        for record in done:
            lists[record["query"]] = [
                ScoredDocument(documents[document], score, rank, trace)
                for rank, (document, score, trace) in enumerate(record["list"], start=1)
            ]
            seconds[record["query"]] = record["seconds"]
        for query in collection.queries:
            if query.id not in lists:
                index = index or retriever.index(collection.documents)
                start = time.perf_counter()
                (hits,) = index.retrieve([query], k + remove_self)
                seconds[query.id] = time.perf_counter() - start
                lists[query.id] = _without_self(hits, query, k) if remove_self else hits
                items = [[item.document.id, item.score, dict(item.trace)] for item in lists[query.id]]
                write({"query": query.id, "seconds": seconds[query.id], "list": items})
            advance(name)
    return Found(lists, tuple(seconds[query.id] for query in collection.queries))


def from_run(collection: Collection, run: Run, k: int, *, remove_self: bool = False) -> Found:
    """The ``k`` best documents per query of a run that was made elsewhere, such as a file in the TREC form.

    Raises:
        InputError: the run names a document that the collection lacks.
    """
    documents = {document.id: document for document in collection.documents}
    lists: dict[str, list[ScoredDocument]] = {}
    for query in collection.queries:
        pairs = [pair for pair in run.get(query.id, ()) if not (remove_self and pair[0] == query.id)]
        lists[query.id] = []
        for rank, (name, score) in enumerate(pairs[:k], start=1):
            if name not in documents:
                raise InputError(f"query {query.id!r}: the run has document {name!r}, which {collection.name} lacks")
            lists[query.id].append(ScoredDocument(documents[name], score, rank))
    return Found(lists)


def tokens_per_query(given: Found, count_tokens: Callable[[Sequence[str]], list[int]]) -> dict[str, float]:
    """Mean and percentiles of the tokens of the documents (title and text) of one query's list: what a reranker reads.

    ``count_tokens`` gives the number of tokens of each text; every document is counted once.
    """
    import numpy as np

    documents = {item.document.id: item.document for items in given.lists.values() for item in items}
    sizes = dict(zip(documents, count_tokens([full_text(of) for of in documents.values()]), strict=True))
    totals = [sum(sizes[item.document.id] for item in items) for items in given.lists.values()]
    p50, p95 = np.percentile(totals, [50, 95]).tolist()
    return {"mean": float(np.mean(totals)), "p50": p50, "p95": p95}


def _without_self(hits: Sequence[ScoredDocument], query: Query, k: int) -> list[ScoredDocument]:
    kept = [item for item in hits if item.document.id != query.id][:k]
    return [ScoredDocument(item.document, item.score, rank, item.trace) for rank, item in enumerate(kept, start=1)]
