"""Our retrievers over corpora that grow: seconds to index, seconds per query, memory; each in a process of its own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from rag.eval.bench_engine import QUERIES, Timing, passages, timed
from rag.types import Query

K = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A retriever over ``documents`` passages of about ``words`` words."""

    retriever: str
    documents: int
    words: int
    repeats: int


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Seconds to index the corpus once, and per query (one at a time); bytes that the index added to the process."""

    case: Case
    index: Timing
    query: Timing
    index_bytes: int

    def row(self) -> dict[str, Any]:
        """Flat figures for a table or JSON."""
        return {
            "retriever": self.case.retriever,
            "documents": self.case.documents,
            "index_s": self.index.median,
            "documents_per_s": self.case.documents / self.index.median,
            "query_s": self.query.median,
            "index_mib": self.index_bytes / 2**20,
            "spread": max(self.index.spread, self.query.spread),
            "noisy": self.index.noisy or self.query.noisy,
        }


def retrieval(
    retrievers: Sequence[str],
    counts: Sequence[int],
    *,
    words: int = 80,
    repeats: int = 3,
    step: Callable[[str], None] = lambda _: None,
) -> list[Retrieval]:
    """Measure every retriever over every size of corpus; ``step`` is told what comes next."""
    spawn = multiprocessing.get_context("spawn")
    measured = []
    for case in (Case(name, count, words, repeats) for name in retrievers for count in counts):
        step(f"{case.retriever}: {case.documents} documents")
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            measured.append(pool.submit(_measure, case).result())
    return measured


def _measure(case: Case) -> Retrieval:
    import psutil

    from rag import registry
    from rag.config import Settings
    from rag.demo_data import demo_corpus
    from rag.resources import Resources

    texts = [document.text for document in demo_corpus()]
    documents = passages(texts, case.documents, case.words, lambda given: [len(text.split()) for text in given])
    resources = Resources(Settings())
    queries = [Query(text) for text in QUERIES]

    def build() -> Any:
        return registry.build("retriever", case.retriever, {}, {"embedder": resources.embedder})

    build().index(documents[:2]).retrieve(queries[:1], 1)  # models and thread pools are loaded before anything counts
    process = psutil.Process()
    before = process.memory_info().rss
    held: list[Any] = []

    def index() -> None:
        held[:] = [build().index(documents)]  # a new one each time: it has embedded nothing yet

    indexing = timed(index, 1 if case.repeats == 1 else 2, held.clear)
    grown = process.memory_info().rss - before

    def ask() -> None:
        for query in queries:
            held[0].retrieve([query], K)

    asked = timed(ask, case.repeats)
    per_query = Timing(tuple(seconds / len(queries) for seconds in asked.seconds))
    return Retrieval(case, indexing, per_query, grown)
