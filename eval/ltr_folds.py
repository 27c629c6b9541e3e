"""Judging learning to rank on lists it was not fitted to: folds of queries, and whole collections left out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rag.errors import InputError
from rag.eval.ltr_data import CandidateList
from rag.eval.measures import measure
from rag.eval.runs import Ranking, Run
from rag.rerankers.ltr_features import Feature
from rag.rerankers.ltr_trees import Floats, LabelledFeatures, TreeParameters, Trees, fit

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


def learnable(lists: Sequence[CandidateList]) -> list[LabelledFeatures]:
    """The lists that hold something relevant, as training data.

    Raises:
        InputError: none does; names the queries.
    """
    labelled = [item.labelled() for item in lists if item.documents]
    kept = [item for item in labelled if item.has_relevant]
    if not kept:
        names = ", ".join(item.key for item in lists[:10])
        more = f" and {len(lists) - 10} more" if len(lists) > 10 else ""
        raise InputError(f"no query has anything relevant among its candidates: {names or 'none given'}{more}")
    return kept


def cross_validate(
    lists: Sequence[CandidateList], features: Sequence[Feature], parameters: TreeParameters, folds: int
) -> CrossValidation:
    """Score each list by trees that saw neither it nor its fold, not even to decide when to stop growing.

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
        trees = fit(learnable(rest), *_columns(features), parameters, learnable(parts[stop]))
        rounds.append(trees.rounds)
        scores.update(score_all(trees, judged))
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


def train(
    lists: Sequence[CandidateList], features: Sequence[Feature], parameters: TreeParameters, rounds: int
) -> Trees:
    """``rounds`` trees fitted to all the lists.

    Raises:
        InputError: no list holds anything relevant; names the queries.
    """
    return fit(learnable(lists), *_columns(features), replace(parameters, rounds=rounds))


def leave_one_out(
    collections: Mapping[str, Sequence[CandidateList]],
    features: Sequence[Feature],
    parameters: TreeParameters,
    folds: int,
) -> dict[str, Scored]:
    """Each collection's lists scored by trees that were fitted to, and stopped on, the other collections alone."""
    scores: dict[str, Scored] = {}
    for name, judged in collections.items():
        others = [item for other, lists in collections.items() if other != name for item in lists]
        rounds = cross_validate(others, features, parameters, folds).typical_rounds
        scores[name] = score_all(train(others, features, parameters, rounds), judged)
    return scores


def score_all(trees: Trees, lists: Sequence[CandidateList]) -> dict[str, Floats]:
    """The scores of each list's candidates."""
    return {item.key: trees.score(item.values) if item.documents else np.empty(0) for item in lists}


def column(lists: Sequence[CandidateList], features: Sequence[Feature], name: str) -> dict[str, Floats]:
    """One feature as the score of each candidate; a missing value is the lowest of all."""
    place = [feature.name for feature in features].index(name)
    return {item.key: np.nan_to_num(item.values[:, place], nan=-np.inf) for item in lists}


def values(lists: Sequence[CandidateList], scores: Scored | None) -> dict[str, float]:
    """nDCG@10 of each list sorted by its scores (None: as it came), ties in the order they came."""
    run: Run = {item.key: _ranking(item, None if scores is None else scores[item.key]) for item in lists}
    found = measure({item.key: item.judgements for item in lists}, run, (MEASURE,)).per_query[MEASURE]
    return dict(found)


def _ranking(item: CandidateList, scores: Floats | None) -> Ranking:
    count = len(item.documents)
    order = range(count) if scores is None else np.argsort(-scores, kind="stable").tolist()
    return [(item.documents[place], float(count - rank)) for rank, place in enumerate(order)]


def _columns(features: Sequence[Feature]) -> tuple[list[str], list[bool]]:
    return [feature.name for feature in features], [feature.increasing for feature in features]
