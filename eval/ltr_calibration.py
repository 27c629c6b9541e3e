"""Fitting calibrated relevance to reranked lists: of every query once as it is and once without what answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rag.errors import InputError, shown
from rag.eval.collections import Collection
from rag.eval.ltr_data import Watch, corpus_digest
from rag.eval.record_log import record_log
from rag.eval.systems import found
from rag.eval.without import without
from rag.rerankers.calibration import IsotonicCurve, LogisticModel
from rag.rerankers.calibration_artefact import list_row
from rag.stages import Reranker, Retriever
from rag.types import ScoredDocument

Kind = Literal["as it is", "without answers"]


@dataclass(frozen=True, slots=True)
class ScoredList:
    """One reranked list: its features (`list_row`), and of each document the score and whether it is relevant."""

    collection: str
    query: str
    row: Mapping[str, float]
    scores: tuple[float, ...]
    relevant: tuple[int, ...]

    @property
    def key(self) -> str:
        """A name of the query that is unique among collections; both lists of a query have the same."""
        return f"{self.collection}/{self.query}"

    @property
    def answers(self) -> int:
        """1 where something in the list is relevant."""
        return int(any(self.relevant))


@dataclass(frozen=True, slots=True)
class Calibrators:
    """The two calibrators: does the list answer, and, if so, which documents are relevant."""

    answerable: LogisticModel
    relevant: IsotonicCurve

    @classmethod
    def fit(cls, lists: Sequence[ScoredList]) -> Calibrators:
        """Fit both; documents count where their list answers.

        Raises:
            InputError: the lists all answer, or none does; names queries.
        """
        answering = [item for item in lists if item.answers]
        if not 0 < len(answering) < len(lists):
            names = ", ".join(dict.fromkeys(shown(item.key) for item in lists[:20]))
            what = "all of the lists answer" if answering else "nothing relevant among the candidates"
            raise InputError(f"calibration needs lists that answer and lists that do not; {what}: {names or 'no list'}")
        documents = [pair for item in answering for pair in zip(item.scores, item.relevant, strict=True)]
        return cls(
            LogisticModel.fit([item.row for item in lists], [item.answers for item in lists]),
            IsotonicCurve.fit([score for score, _ in documents], [label for _, label in documents]),
        )

    def judge(self, item: ScoredList) -> tuple[float, list[float]]:
        """Probability that the list answers, and that each document is relevant."""
        answerable = self.answerable(item.row)
        return answerable, (answerable * self.relevant(item.scores)).tolist()


def collect(
    source: Collection,
    retriever: Retriever,
    reranker: Reranker,
    k: int,
    signals: Sequence[str],
    *,
    description: Mapping[str, Any],
    cache: Path | None = None,
    watch: Watch = lambda items, _: items,
) -> list[ScoredList]:
    """Every query's reranked list, as it is and without what is relevant to it.

    With ``cache``, a JSONL file, each list is written as soon as it is there, and not made again.
    ``description`` says what the lists depend on: retriever, reranker, engine.

    Raises:
        ArtefactError: ``cache`` belongs to other data or another description, or is damaged.
        InputError: a signal that no candidate has.
    """
    removed = {
        query: frozenset(name for name, grade in grades.items() if grade > 0) for query, grades in source.qrels.items()
    }
    header = {"collection": source.name, "data": corpus_digest(source), "k": k, "signals": list(signals), **description}
    with record_log(cache, header) as (records, write):
        done = {(record["query"], record["kind"]): record for record in records}
        kinds: dict[Kind, Retriever] = {"as it is": retriever, "without answers": without(retriever, removed)}
        # Both lists of a query one after the other: they have most of their documents in common.
        missing = [(query, kind) for query in source.queries for kind in kinds if (query.id, kind) not in done]
        lists = {kind: found(source, finds, k) for kind, finds in kinds.items()} if missing else {}
        for query, kind in watch(missing, source.name):
            ranked = reranker.rerank(query, lists[kind](query))
            record = _record(ranked, removed[query.id], signals)
            done[query.id, kind] = {"query": query.id, "kind": kind, **record}
            write(done[query.id, kind])
    return [
        ScoredList(source.name, query.id, record["row"], tuple(record["scores"]), tuple(record["relevant"]))
        for query in source.queries
        for record in (done[query.id, kind] for kind in kinds)
        if record["scores"]
    ]


def _record(ranked: Sequence[ScoredDocument], relevant: frozenset[str], signals: Sequence[str]) -> dict[str, Any]:
    """What is kept of a reranked list; a document without text has nothing to calibrate."""
    read = [item for item in ranked if not item.document.is_empty]
    scores = [item.score for item in read]
    return {
        "row": list_row(scores, [item.trace for item in read], signals) if read else {},
        "scores": scores,
        "relevant": [int(item.document.id in relevant) for item in read],
    }
