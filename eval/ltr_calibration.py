"""Fitting calibrated relevance: every query once as it is and once without what answers it; judged on held-out ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rag.errors import InputError, shown
from rag.eval.collections import Collection
from rag.eval.ltr_data import Watch, corpus_digest
from rag.eval.ltr_folds import balanced_folds
from rag.eval.record_log import record_log
from rag.eval.systems import Found, found
from rag.eval.without import without
from rag.rerankers.calibration import (
    IsotonicCurve,
    LogisticModel,
    ReliabilityBin,
    abstain_below,
    brier,
    expected_calibration_error,
    reliability,
)
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


@dataclass(frozen=True, slots=True)
class Quality:
    """How good probabilities are: Brier score, that of always saying the base rate, ECE, and the diagram."""

    count: int
    base_rate: float
    brier: float
    brier_of_base_rate: float
    ece: float
    diagram: tuple[ReliabilityBin, ...]

    @classmethod
    def of(cls, probabilities: Sequence[float], labels: Sequence[int]) -> Quality:
        """Measure them; see `rag.rerankers.calibration` for what is accepted."""
        base = sum(labels) / len(labels)
        return cls(
            len(labels),
            base,
            brier(probabilities, labels),
            base * (1 - base),
            expected_calibration_error(probabilities, labels),
            reliability(probabilities, labels),
        )


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Quality of both probabilities on lists that the calibrators did not see, and the threshold that it suggests.

    ``caught`` is the share of lists without an answer that lie below ``threshold``, ``given_up`` that of those with.
    The threshold was chosen on the same probabilities.
    """

    answerable: Quality
    relevance: Quality
    threshold: float
    caught: float
    given_up: float


def hold_out(lists: Sequence[ScoredList], part_of: Callable[[ScoredList], Hashable], wrongly: float) -> HeldOut:
    """Judge each part (a fold of queries, a collection) by calibrators fitted to the other parts.

    Args:
        lists: the reranked lists.
        part_of: names the part of a list; both lists of a query must be in the same.
        wrongly: share of answering lists that abstaining may give up.

    Raises:
        InputError: fewer than two parts, or what is left has lists of one kind only.
    """
    parts = dict.fromkeys(part_of(item) for item in lists)
    if len(parts) < 2:
        raise InputError(f"held-out figures need at least 2 parts of the queries, given {len(parts)}")
    answerable: list[float] = []
    answers: list[int] = []
    relevance: list[float] = []
    relevant: list[int] = []
    for part in parts:
        fitted = Calibrators.fit([item for item in lists if part_of(item) != part])
        for item in (item for item in lists if part_of(item) == part):
            of_list, of_documents = fitted.judge(item)
            answerable.append(of_list)
            answers.append(item.answers)
            relevance += of_documents
            relevant += item.relevant
    threshold = abstain_below(answerable, answers, wrongly)
    below = [(label, p < threshold) for p, label in zip(answerable, answers, strict=True)]
    return HeldOut(
        Quality.of(answerable, answers),
        Quality.of(relevance, relevant),
        threshold,
        _share(low for label, low in below if not label),
        _share(low for label, low in below if label),
    )


def by_fold(lists: Sequence[ScoredList], count: int) -> Callable[[ScoredList], Hashable]:
    """Parts that are ``count`` folds of the queries, the same in every run.

    Raises:
        InputError: fewer queries than folds.
    """
    folds = balanced_folds((item.key for item in lists), count)
    return lambda item: folds[item.key]


def by_collection(item: ScoredList) -> Hashable:
    """Parts that are whole collections."""
    return item.collection


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
        for kind, finds in kinds.items():
            missing = [query for query in source.queries if (query.id, kind) not in done]
            lists = found(source, finds, k) if missing else Found({})
            for query in watch(missing, f"{source.name}, {kind}"):
                ranked = reranker.rerank(query, lists(query))
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


def _share(flags: Any) -> float:
    given = list(flags)
    return sum(given) / len(given) if given else 0.0
