"""A small retrieval evaluation for the tests of records and reports, with text that tries to become markup."""

from __future__ import annotations

from typing import Any

from rag.eval.collections import Collection
from rag.eval.latency import latency
from rag.eval.report_record import make_record
from rag.eval.retrieval import evaluate
from rag.retrievers import BM25
from rag.types import Document, Query, ScoredDocument, ranked

WORDS = ("harbour", "lamp", "bread", "tide", "boat", "salt", "keeper", "noon", "wall", "coast")
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)"> | *x* `y`'


def words_collection(**changes: Any) -> Collection:
    """Ten queries of one word; the document that has it is the answer. One title and one query are hostile."""
    documents = tuple(
        Document(f"d{i}", f"the {word} of the town", title=HOSTILE if i == 0 else f"On {word}")
        for i, word in enumerate(WORDS)
    )
    queries = tuple(Query(f"{word} {HOSTILE}" if i == 0 else word, f"q{i}") for i, word in enumerate(WORDS))
    qrels = {f"q{i}": {f"d{i}": 2, "d9": 0} if i != 9 else {"d9": 1} for i in range(len(WORDS))}
    return Collection(**{"name": "words", "documents": documents, "queries": queries, "qrels": qrels, **changes})


def words_record(collection: Collection | None = None, **extra: Any) -> dict[str, Any]:
    """The record of ``bm25``, of ``blind`` (the corpus in its own order) and of ``<b>mixed</b>``, half of each."""
    source = collection or words_collection()
    index = BM25().index(source.documents)

    def bm25(query: Query) -> list[ScoredDocument]:
        return index.retrieve([query], 5)[0]

    def blind(_: Query) -> list[ScoredDocument]:
        return ranked(source.documents, [0.0] * len(source.documents))

    def mixed(query: Query) -> list[ScoredDocument]:
        return bm25(query) if int(query.id[1:]) % 2 else blind(query)

    systems = {"blind": blind, "bm25": bm25, "<b>mixed</b>": mixed}
    results = evaluate(source, systems, measures=["nDCG@10", "RR@10"], progress=False)
    return make_record(
        results,
        source,
        k=20,
        timings={"bm25": {"retrieval": latency([0.001, 0.002, 0.004])}},
        tokens={"bm25": {"mean": 50.0, "p50": 50.0, "p95": 60.0}},
        identities={name: {"name": name} for name in systems},
        extra={"qrels": "test", **extra},
    )
