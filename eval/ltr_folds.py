"""Judging learning to rank on lists it was not fitted to: folds of queries, and whole collections left out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rag.errors import InputError
from rag.eval.ltr_data import CandidateList
from rag.eval.measures import measure
from rag.eval.runs import Ranking, Run
from rag.standard_scores import Floats

if TYPE_CHECKING:
    from rag.eval.ltr_fit import Plan
    from rag.eval.probe_fit import Column

MEASURE = "nDCG@10"

Scored = Mapping[str, Floats]
"""Key of a list to the scores of its candidates."""


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """Out-of-fold scores of every list, the fold each was scored in, and the number of trees of each fold's model."""

    scores: Scored
    folds: Mapping[str, int]
    rounds: tuple[int, ...]

    @property
    def typical_rounds(self) -> int:
        """How many trees a model of all the lists should have: the mean over the folds."""
        return max(1, round(sum(self.rounds) / len(self.rounds)))


def cross_validate(lists: Sequence[CandidateList], plan: Plan, folds: int) -> CrossValidation:
    """Score each list by trees that saw neither it nor its fold, not even to choose heads or to stop growing.

    Of the other folds the next one is what growing is stopped on, and the rest are learned from.

    Raises:
        InputError: fewer than 3 folds, fewer lists than folds, or a fold in which no list holds anything relevant.
    """
    if folds < 3:
        raise InputError(f"{folds} folds; accepted: 3 or more (one is judged, one stopped on, the rest learned from)")
    places = balanced_folds((item.key for item in lists), folds)
    parts = [[item for item in lists if places[item.key] == fold] for fold in range(folds)]
    scores: dict[str, Floats] = {}
    rounds = []
    for fold, judged in enumerate(parts):
        stop = (fold + 1) % folds
        rest = [item for place, part in enumerate(parts) if place not in (fold, stop) for item in part]
        ranker = plan.fit(rest, parts[stop])
        rounds.append(ranker.trees.rounds)
        scores |= ranker(judged)
    return CrossValidation({item.key: scores[item.key] for item in lists}, places, tuple(rounds))


def balanced_folds(keys: Iterable[str], count: int) -> dict[str, int]:
    """The fold of each key, 0 to ``count`` - 1: the same in every run, in any order, folds of equal size.

    Raises:
        InputError: fewer keys than folds.
    """
    names = set(keys)
    if len(names) < count:
        raise InputError(f"{len(names)} queries for {count} folds; accepted: at least one query per fold")
    order = sorted(names, key=lambda name: (hashlib.blake2b(name.encode("utf-8", "surrogatepass")).digest(), name))
    return {name: place % count for place, name in enumerate(order)}


def leave_one_out(collections: Mapping[str, Sequence[CandidateList]], plan: Plan, folds: int) -> dict[str, Floats]:
    """Each collection's lists scored by trees that were fitted to, and stopped on, the other collections alone."""
    scores: dict[str, Floats] = {}
    for name, judged in collections.items():
        others = [item for other, lists in collections.items() if other != name for item in lists]
        rounds = cross_validate(others, plan, folds).typical_rounds
        scores |= plan.fit(others, rounds=rounds)(judged)
    return scores


def column(lists: Sequence[CandidateList], columns: Sequence[Column], name: str) -> dict[str, Floats]:
    """One plain column as the score of each candidate; a missing value is the lowest of all."""
    place = [str(item) for item in columns].index(name)
    return {item.key: np.nan_to_num(item.values[:, place], nan=-np.inf) for item in lists}


def as_they_came(lists: Sequence[CandidateList]) -> dict[str, Floats]:
    """Scores that keep the order of each list."""
    return {item.key: -np.arange(len(item.documents), dtype=np.float64) for item in lists}


def values(lists: Sequence[CandidateList], scores: Scored) -> dict[str, float]:
    """nDCG@10 of each list sorted by its scores, ties in the order they came."""
    run: Run = {item.key: _ranking(item, scores[item.key]) for item in lists}
    found = measure({item.key: item.judgements for item in lists}, run, (MEASURE,)).per_query[MEASURE]
    return dict(found)


def _ranking(item: CandidateList, scores: Floats) -> Ranking:
    count = len(item.documents)
    order = np.argsort(-scores, kind="stable").tolist()
    return [(item.documents[place], float(count - rank)) for rank, place in enumerate(order)]
