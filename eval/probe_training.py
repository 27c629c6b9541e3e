"""Judging a probe on lists it has not seen, and making the one that is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

import numpy as np

from rag.artefacts import EngineIdentity, TrainedOn
from rag.attention.heads import Task
from rag.attention.probe import HeadWeight, Probe
from rag.errors import InputError
from rag.eval.ltr_folds import balanced_folds
from rag.eval.probe_fit import Column, Floats, LabelledItems, LinearScore, learn
from rag.eval.significance import randomisation_test

Scores = Mapping[str, Floats]
"""Key of a list to the scores of its items."""
Measure = Callable[[Scores], Mapping[str, float]]
"""Key of each list to how good these scores are for it."""


class Keyed(Protocol):
    """A list that has a key."""

    @property
    def key(self) -> str:
        """A name that is unique among all lists."""
        ...


@dataclass(frozen=True, slots=True)
class Order:
    """One way to rank the lists of a collection: the mean of the measure, and p of its difference from the baseline."""

    name: str
    mean: float
    p: float | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A collection and its orders: the baseline first, then others."""

    collection: str
    lists: int
    orders: tuple[Order, ...]


def cross_validated(
    collections: Mapping[str, Sequence[LabelledItems]], columns: Sequence[Column], folds: int, keep: int, l2: float
) -> dict[str, Floats]:
    """Every list scored by a probe that was learned from the other folds of all the collections."""
    lists = [item for of in collections.values() for item in of]
    places = balanced_folds((item.key for item in lists), folds)
    scores: dict[str, Floats] = {}
    for fold in range(folds):
        probe = learn([item for item in lists if places[item.key] != fold], columns, keep, l2)
        scores |= {item.key: probe(item) for item in lists if places[item.key] == fold}
    return scores


def left_out(
    collections: Mapping[str, Sequence[LabelledItems]], columns: Sequence[Column], keep: int, l2: float
) -> dict[str, Floats]:
    """Every list scored by a probe that was learned from the other collections alone.

    Raises:
        InputError: there is only one collection.
    """
    if len(collections) < 2:
        raise InputError(f"{len(collections)} collection; accepted: 2 or more, to leave one out")
    scores: dict[str, Floats] = {}
    for name, judged in collections.items():
        others = [item for other, of in collections.items() if other != name for item in of]
        probe = learn(others, columns, keep, l2)
        scores |= {item.key: probe(item) for item in judged}
    return scores


def signals(collections: Mapping[str, Sequence[LabelledItems]], columns: Sequence[Column]) -> dict[str, Scores]:
    """The rankings without attention: each signal alone, and the sum of all of them."""
    places = {column.name: place for place, column in enumerate(columns) if column.head is None}
    lists = [item for of in collections.values() for item in of]
    alone: dict[str, Scores] = {
        name: {item.key: item.values[:, place] for item in lists} for name, place in places.items()
    }
    if len(places) < 2:
        return alone
    return {**alone, " + ".join(places): {item.key: item.values[:, list(places.values())].sum(1) for item in lists}}


def judge(
    collections: Mapping[str, Sequence[Keyed]], orders: Mapping[str, Scores], measure: Measure
) -> list[Judgement]:
    """Each collection's mean under each order; p of the paired randomisation test against the first that is given."""
    measured = {name: measure(scores) for name, scores in orders.items()}
    first = next(iter(measured))
    rows = []
    for name, lists in collections.items():
        keys = [item.key for item in lists]
        base = [measured[first][key] for key in keys]
        made = []
        for order, values in measured.items():
            mine = [values[key] for key in keys]
            made.append(Order(order, fmean(mine), None if order == first else randomisation_test(mine, base)))
        rows.append(Judgement(name, len(lists), tuple(made)))
    return rows


def as_probe(
    learned: LinearScore,
    columns: Sequence[Column],
    *,
    task: Task,
    engine: EngineIdentity,
    bias: float,
    method: str,
    data: Sequence[TrainedOn],
) -> Probe:
    """The artefact of a learned score, heaviest heads first; weights are rounded to six digits."""
    weights = {columns[place]: round(weight, 6) for place, weight in learned.weights.items()}
    heads = [
        HeadWeight(column.name, column.head, weight) for column, weight in weights.items() if column.head is not None
    ]
    return Probe(
        task=task,
        engine=engine,
        heads=tuple(sorted(heads, key=lambda item: -item.weight)),
        signals={column.name: weight for column, weight in weights.items() if column.head is None}
        | {name: round(weight, 6) for name, weight in learned.following.items()},
        bias=round(bias, 6),
        method=method,
        data=tuple(data),
    )


def log_odds(learned: LinearScore, lists: Sequence[LabelledItems]) -> tuple[LinearScore, float]:
    """The score stretched, and a bias, so that its logistic function is the chance that an item is relevant.

    Platt's scaling (1999) of the score over the items of all ``lists``; the order of a list's items stays.
    """
    from sklearn.linear_model import LogisticRegression

    scores = np.concatenate([learned(item) for item in lists])
    relevant = np.concatenate([item.gains > 0 for item in lists])
    platt = LogisticRegression(C=1e6).fit(scores[:, None], relevant)
    slope = float(platt.coef_[0, 0])
    return learned.scaled(slope), float(platt.intercept_[0])
