"""Learning a probe: which heads, and with which weights, from labelled lists of documents or of sentences.

D items of a list, F features (columns).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rag.attention.detection import ndcg
from rag.attention.types import Head
from rag.errors import InputError

Floats = npt.NDArray[np.float64]
Follow = Callable[[Floats], Mapping[str, Floats]]

KEEP = 12
L2 = 0.1
"""Heads kept of each statistic and strength of regularisation, chosen with collections left out in turn (HotpotQA and
MuSiQue train; docs/probe.md)."""


@dataclass(frozen=True, slots=True)
class Column:
    """A feature: a statistic of a head, or (``head`` None) a signal known without attention."""

    name: str
    head: Head | None = None

    def __str__(self) -> str:
        return self.name if self.head is None else f"{self.name} {self.head}"


def _nothing(_first: Floats) -> Mapping[str, Floats]:
    return {}


@dataclass(frozen=True, slots=True)
class LabelledItems:
    """One list: its name, z-scored features (D, F) and gains (D,), 0 for what is not relevant."""

    key: str
    values: Floats
    gains: Floats
    follow: Follow = _nothing
    """Signals that start from a first score (D,): values (D,) by name."""

    @property
    def has_relevant(self) -> bool:
        """Whether anything can be learned from it."""
        return bool((self.gains > 0).any())


@dataclass(frozen=True, slots=True)
class LinearScore:
    """Weights of some of the columns, by their places, and of the signals that follow from their sum, by name."""

    weights: Mapping[int, float]
    following: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, item: LabelledItems) -> Floats:
        """Score (D,) of each item of a list."""
        places = list(self.weights)
        first: Floats = item.values[:, places] @ np.array([self.weights[place] for place in places])
        if not self.following:
            return first
        signals = item.follow(first)
        return first + sum(weight * signals[name] for name, weight in self.following.items())

    def scaled(self, by: float) -> LinearScore:
        """The same order, stretched; ``by`` is above 0."""
        return LinearScore(
            {place: weight * by for place, weight in self.weights.items()},
            {name: weight * by for name, weight in self.following.items()},
        )


def learn(lists: Sequence[LabelledItems], columns: Sequence[Column], keep: int = KEEP, l2: float = L2) -> LinearScore:
    """Choose of each statistic the ``keep`` heads that rank best alone, and weigh them together with all signals.

    Where the lists have signals that follow, they are weighed against the sum of these in a second step.

    Raises:
        InputError: no list holds anything relevant; names the lists.
    """
    usable = [item for item in lists if item.has_relevant]
    if not usable:
        names = ", ".join(item.key for item in lists[:10]) + (", ..." if len(lists) > 10 else "")
        raise InputError(f"no list has anything relevant to learn from: {names or 'none given'}")
    by_statistic: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        if column.head is not None:
            by_statistic.setdefault(column.name, []).append(place)
    places = [place for of in by_statistic.values() for place in strongest(usable, of, keep)]
    places += [place for place, column in enumerate(columns) if column.head is None]
    weights = fit([LabelledItems(item.key, item.values[:, places], item.gains) for item in usable], l2)
    first = LinearScore({place: float(weight) for place, weight in zip(places, weights, strict=True) if weight > 0})
    return _with_what_follows(first, usable, l2)


def _with_what_follows(first: LinearScore, lists: Sequence[LabelledItems], l2: float) -> LinearScore:
    """``first`` and, weighed against it, the signals that start from it; a tenth of ``l2`` for so few columns."""
    scores = [first(item) for item in lists]
    signals = [item.follow(score) for item, score in zip(lists, scores, strict=True)]
    names = tuple(signals[0])
    if not names:
        return first
    rows = [
        LabelledItems(item.key, np.column_stack([score, *(of[name] for name in names)]), item.gains)
        for item, score, of in zip(lists, scores, signals, strict=True)
    ]
    scale, *weights = fit(rows, l2 / 10)
    # What follows starts from the first score, so that its weight must not vanish.
    scale = max(float(scale), 1e-6)
    following = {name: float(weight) / scale for name, weight in zip(names, weights, strict=True) if weight > 0}
    return LinearScore(first.weights, following).scaled(scale)


def strongest(lists: Sequence[LabelledItems], places: Sequence[int], keep: int) -> list[int]:
    """The ``keep`` of ``places`` with the best mean nDCG@10 over the lists when they rank alone, best first."""
    if not places:
        return []
    means = np.mean([ndcg(item.values[:, places].T, item.gains.tolist()) for item in lists], axis=0)
    return [places[best] for best in np.argsort(-means, kind="stable")[:keep]]


def fit(lists: Sequence[LabelledItems], l2: float = L2) -> Floats:
    """Weights (F,), none below 0, that minimise the listwise cross-entropy plus ``l2`` times their squares.

    The loss of a list is the cross-entropy between the softmax of its scores and its gains as shares (ListNet's top
    one, Cao et al., ICML 2007). A weight below 0 would say that a head which looks at an item speaks against it: with
    as few lists as these that is chance. Every list must hold something relevant.
    """
    from scipy.optimize import minimize

    shares = [np.maximum(item.gains, 0) / np.maximum(item.gains, 0).sum() for item in lists]

    def loss(weights: Floats) -> tuple[float, Floats]:
        total, gradient = 0.0, np.zeros_like(weights)
        for item, share in zip(lists, shares, strict=True):
            scores = item.values @ weights
            top = scores.max()
            odds = np.exp(scores - top)
            total += float(np.log(odds.sum()) + top - share @ scores)
            gradient += item.values.T @ (odds / odds.sum() - share)
        return (
            total / len(lists) + l2 * float(weights @ weights),
            gradient / len(lists) + 2 * l2 * weights,
        )

    count = lists[0].values.shape[1]
    weights: Floats = minimize(
        loss, np.full(count, 1 / count), jac=True, method="L-BFGS-B", bounds=[(0, None)] * count
    ).x
    return weights
