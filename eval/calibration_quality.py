"""How good calibrated relevance is: probabilities of held-out queries against what held, beside uncalibrated scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from rag.errors import InputError
from rag.eval.ltr_calibration import Calibrators, ScoredList
from rag.eval.ltr_folds import balanced_folds
from rag.rerankers.calibration import (
    ReliabilityBin,
    abstain_below,
    brier,
    expected_calibration_error,
    reliability,
)

ALL = "all collections"
"""What stands for all of them together."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A list with its probabilities by calibrators that did not see its query: that it answers, of each document."""

    item: ScoredList
    answerable: float
    relevance: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Quality:
    """How good probabilities are: Brier score, that of always saying the base rate, ECE, and the diagram.

    ``auc`` is the area under the ROC curve: how often a positive is above a negative; None where one of them is absent.
    """

    count: int
    base_rate: float
    auc: float | None
    brier: float
    brier_of_base_rate: float
    ece: float
    diagram: tuple[ReliabilityBin, ...]

    @classmethod
    def of(cls, probabilities: Sequence[float], labels: Sequence[int]) -> Quality:
        """Measure them; see `rag.rerankers.calibration` for what is accepted."""
        from sklearn.metrics import roc_auc_score

        base = sum(labels) / len(labels)
        return cls(
            len(labels),
            base,
            float(roc_auc_score(labels, probabilities)) if 0 < base < 1 else None,
            brier(probabilities, labels),
            base * (1 - base),
            expected_calibration_error(probabilities, labels),
            reliability(probabilities, labels),
        )


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Quality of both probabilities before and after calibration, and what abstaining below ``threshold`` does.

    Before calibration a score is read as log odds: what the scores of a logistic model are meant to be; a list answers
    as its best document is relevant. ``caught`` is the share of lists without an answer that lie below the threshold
    (None where there are none), ``given_up`` that of those with one.
    """

    answerable: Quality
    relevance: Quality
    answerable_before: Quality
    relevance_before: Quality
    threshold: float
    caught: float | None
    given_up: float | None

    @classmethod
    def of(cls, judged: Sequence[Judged], threshold: float) -> HeldOut:
        """Measure some of the judged lists, at least one."""
        answers = [of.item.answers for of in judged]
        relevant = [label for of in judged for label in of.item.relevant]
        below = [(of.item.answers, of.answerable < threshold) for of in judged]
        return cls(
            Quality.of([of.answerable for of in judged], answers),
            Quality.of([p for of in judged for p in of.relevance], relevant),
            Quality.of([_from_log_odds(max(of.item.scores)) for of in judged], answers),
            Quality.of([_from_log_odds(score) for of in judged for score in of.item.scores], relevant),
            threshold,
            _share(low for label, low in below if not label),
            _share(low for label, low in below if label),
        )


def hold_out(lists: Sequence[ScoredList], part_of: Callable[[ScoredList], Hashable]) -> list[Judged]:
    """Judge each part (a fold of queries, a collection) by calibrators fitted to the other parts.

    Args:
        lists: the reranked lists.
        part_of: names the part of a list; both lists of a query must be in the same.

    Raises:
        InputError: fewer than two parts, or what is left has lists of one kind only.
    """
    parts = dict.fromkeys(part_of(item) for item in lists)
    if len(parts) < 2:
        raise InputError(f"held-out figures need at least 2 parts of the queries, given {len(parts)}")
    judged = []
    for part in parts:
        fitted = Calibrators.fit([item for item in lists if part_of(item) != part])
        for item in (item for item in lists if part_of(item) == part):
            answerable, relevance = fitted.judge(item)
            judged.append(Judged(item, answerable, tuple(relevance)))
    return judged


def figures(judged: Sequence[Judged], wrongly: float) -> dict[str, HeldOut]:
    """The quality on every collection by name, and on all together (`ALL`) where there are several.

    One threshold serves all: the one that gives up the share ``wrongly`` of the lists with an answer, chosen on these
    probabilities.
    """
    threshold = abstain_below([of.answerable for of in judged], [of.item.answers for of in judged], wrongly)
    names = dict.fromkeys(of.item.collection for of in judged)
    parts = {name: [of for of in judged if of.item.collection == name] for name in names}
    if len(parts) > 1:
        parts = {ALL: list(judged), **parts}
    return {name: HeldOut.of(of, threshold) for name, of in parts.items()}


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


def _from_log_odds(score: float) -> float:
    return 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score))


def _share(flags: Iterable[bool]) -> float | None:
    given = list(flags)
    return sum(given) / len(given) if given else None
