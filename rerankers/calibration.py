"""From scores to probabilities: two small calibrators, and what says how good their probabilities are.

A listwise score says which document of a list is better, not whether it is any good. Two questions are asked instead:
does anything in this list answer the query (Platt's logistic regression over features of the list: Platt 1999), and, if
so, is this document relevant (isotonic regression of the score: Zadrozny and Elkan 2002)? The product of the two is a
document's relevance. n probabilities, labels 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pydantic

from rag.errors import InputError
from rag.standard_scores import standard_scores

Floats = npt.NDArray[np.float64]


class ListFeatures(NamedTuple):
    """What a list's scores alone say about it.

    ``top``: the best score. ``margin``: its distance to the second, 0 where there is none. ``entropy``: of the softmax
    of the standard scores, over log D, so that 1 is a list of equals and 0 a list of one.
    """

    top: float
    margin: float
    entropy: float


def list_features(scores: Sequence[float]) -> ListFeatures:
    """The features of a list from the scores of its documents, in any order.

    Raises:
        InputError: no score, or one that is not a finite number.
    """
    given = np.sort(np.asarray(scores, dtype=np.float64))[::-1]
    if not given.size or not np.isfinite(given).all():
        raise InputError("the features of a list need at least one score, all of them finite numbers")
    if given.size == 1:
        return ListFeatures(float(given[0]), 0.0, 0.0)
    weights = np.exp(standard_scores(given))
    shares = weights / weights.sum()
    entropy = -float((shares * np.log(shares)).sum()) / math.log(given.size)
    return ListFeatures(float(given[0]), float(given[0] - given[1]), entropy)


class IsotonicCurve(pydantic.BaseModel, frozen=True, extra="forbid"):
    """A rising curve through knots, straight between them and level outside."""

    scores: tuple[pydantic.FiniteFloat, ...]
    probabilities: tuple[pydantic.FiniteFloat, ...]

    @pydantic.model_validator(mode="after")
    def _rises(self) -> Self:
        x, y = self.scores, self.probabilities
        if not x or len(x) != len(y) or list(x) != sorted(set(x)) or list(y) != sorted(y):
            raise ValueError("knots need rising scores and probabilities that do not fall, as many of each")
        if not 0 <= y[0] <= y[-1] <= 1:
            raise ValueError("probabilities must be in [0, 1]")
        return self

    @classmethod
    def fit(cls, scores: Sequence[float], labels: Sequence[int]) -> Self:
        """Pool adjacent violators (scikit-learn), kept off 0 and 1 by what n labels cannot rule out: 1 / (n + 2).

        Raises:
            InputError: labels of one kind only.
        """
        from sklearn.isotonic import IsotonicRegression

        _require_both(labels)
        edge = 1 / (len(labels) + 2)
        model = IsotonicRegression(y_min=edge, y_max=1 - edge).fit(scores, labels)
        return cls(scores=model.X_thresholds_.tolist(), probabilities=model.y_thresholds_.tolist())

    def __call__(self, scores: Sequence[float]) -> Floats:
        """Probabilities (n,) of scores."""
        return np.interp(np.asarray(scores, dtype=np.float64), self.scores, self.probabilities)


class LogisticModel(pydantic.BaseModel, frozen=True, extra="forbid"):
    """Logistic regression over named features, each standardised by a mean and a scale."""

    features: tuple[str, ...]
    means: tuple[pydantic.FiniteFloat, ...]
    scales: tuple[pydantic.FiniteFloat, ...]
    weights: tuple[pydantic.FiniteFloat, ...]
    bias: pydantic.FiniteFloat

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        count = len(self.features)
        if not count or any(len(part) != count for part in (self.means, self.scales, self.weights)):
            raise ValueError("means, scales and weights must be as many as features, and at least one")
        if not all(scale > 0 for scale in self.scales):
            raise ValueError("scales must be above 0")
        return self

    @classmethod
    def fit(cls, rows: Sequence[Mapping[str, float]], labels: Sequence[int]) -> Self:
        """Fit with scikit-learn's default L2 penalty; every row has the same features.

        Raises:
            InputError: labels of one kind only.
        """
        from sklearn.linear_model import LogisticRegression

        _require_both(labels)
        names = tuple(rows[0])
        values = np.array([[row[name] for name in names] for row in rows], dtype=np.float64)
        means, scales = values.mean(0), values.std(0)
        scales[scales == 0] = 1.0
        model = LogisticRegression(max_iter=1000).fit((values - means) / scales, labels)
        return cls(
            features=names,
            means=means.tolist(),
            scales=scales.tolist(),
            weights=model.coef_[0].tolist(),
            bias=float(model.intercept_[0]),
        )

    def __call__(self, row: Mapping[str, float]) -> float:
        """The probability of one row, which has at least the model's features."""
        terms = zip(self.features, self.means, self.scales, self.weights, strict=True)
        z = self.bias + math.fsum((row[name] - mean) / scale * weight for name, mean, scale, weight in terms)
        return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


class ReliabilityBin(NamedTuple):
    """The predictions in [low, high), the last bin with its high end: how many, their mean, and the share that held."""

    low: float
    high: float
    size: int
    predicted: float
    observed: float


def brier(probabilities: Sequence[float], labels: Sequence[int]) -> float:
    """Mean squared distance of probability and label (Brier 1950): 0 is perfect, always saying 0.5 gives 0.25.

    Raises:
        InputError: as many of both are needed, at least one, probabilities in [0, 1], labels 0 or 1.
    """
    p, y = _checked(probabilities, labels)
    return float(((p - y) ** 2).mean())


def reliability(probabilities: Sequence[float], labels: Sequence[int], bins: int = 10) -> tuple[ReliabilityBin, ...]:
    """The bins of a reliability diagram, equally wide; empty ones are left out.

    Raises:
        InputError: see `brier`; ``bins`` below 1.
    """
    p, y = _checked(probabilities, labels)
    if bins < 1:
        raise InputError(f"a reliability diagram needs at least 1 bin, given {bins}")
    places = np.minimum((p * bins).astype(int), bins - 1)
    return tuple(
        ReliabilityBin(
            int(place) / bins,
            (int(place) + 1) / bins,
            int((places == place).sum()),
            float(p[places == place].mean()),
            float(y[places == place].mean()),
        )
        for place in np.unique(places)
    )


def expected_calibration_error(probabilities: Sequence[float], labels: Sequence[int], bins: int = 10) -> float:
    """Mean distance of predicted and observed over equally wide bins, weighted by count (Naeini et al. 2015).

    Raises:
        InputError: see `reliability`.
    """
    diagram = reliability(probabilities, labels, bins)
    return math.fsum(item.size * abs(item.predicted - item.observed) for item in diagram) / len(labels)


def abstain_below(probabilities: Sequence[float], labels: Sequence[int], wrongly: float) -> float:
    """The highest threshold under which at most the share ``wrongly`` of the positives lies.

    Abstaining below it refuses as many hopeless lists as can be had at that price.

    Raises:
        InputError: see `brier`; no positive; ``wrongly`` outside [0, 1).
    """
    p, y = _checked(probabilities, labels)
    if not 0 <= wrongly < 1:
        raise InputError(f"the share of answerable lists given up must be in [0, 1), given {wrongly}")
    positives = np.sort(p[y == 1])
    if not positives.size:
        raise InputError("a threshold needs at least one positive label")
    return float(positives[int(wrongly * positives.size)])


def _checked(probabilities: Sequence[float], labels: Sequence[int]) -> tuple[Floats, Floats]:
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if p.ndim != 1 or p.shape != y.shape or not p.size:
        raise InputError(f"probabilities of shape {p.shape}, labels of shape {y.shape}; as many are needed")
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError("a probability is outside [0, 1]")
    if not np.isin(y, (0, 1)).all():
        raise InputError("labels must be 0 or 1")
    return p, y


def _require_both(labels: Sequence[int]) -> None:
    if set(labels) != {0, 1}:
        raise InputError(f"calibration needs labels 0 and 1, given only {sorted(set(labels))}")
