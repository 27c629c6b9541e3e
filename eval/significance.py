"""Is one system better than another, or is it luck of the queries? Pure functions over per-query values.

Paired throughout: the two sequences hold the values of the same queries in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag.errors import InputError

_CHUNK = 2**22  # random signs, or draws, made at a time: bounds memory at some tens of MB


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def randomisation_test(a: Sequence[float], b: Sequence[float], resamples: int = 100_000, seed: int = 0) -> float:
    """Two-sided p value of the paired randomisation test (Fisher 1935; Smucker, Allan and Carterette 2007).

    Flips the sign of each query's difference at random and counts how often the mean is at least as far from 0 as
    the one observed. The observed one counts too, so that p is never 0: ``(hits + 1) / (resamples + 1)``.

    Raises:
        InputError: sequences of different lengths, without values, or with values that are not finite.
    """
    differences = _differences(a, b)
    if resamples < 1:
        raise InputError(f"resamples must be at least 1, given {resamples}")
    changed = differences[differences != 0]
    if not len(changed):
        return 1.0
    # Sums that are equal on paper may differ in the last digits; they have to count as equal.
    observed = abs(changed.sum()) - 1e-9 * float(np.abs(changed).sum())
    random = np.random.default_rng(seed)
    hits = 0
    for count in _chunks(resamples, len(changed)):
        signs = random.integers(0, 2, size=(count, len(changed)), dtype=np.int8) * np.int8(2) - np.int8(1)
        hits += int(np.count_nonzero(np.abs(signs @ changed) >= observed))
    return (hits + 1) / (resamples + 1)


def paired_t_test(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided p value of Student's paired t test; 1 where all differences are 0 or there is but one query."""
    from scipy import stats

    differences = _differences(a, b)
    if len(differences) < 2 or not differences.any():
        return 1.0
    if np.ptp(differences) == 0:
        return 0.0  # the same difference everywhere: t is infinite
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjust p values for the number of comparisons (Holm 1979): each may then be compared with 0.05.

    Raises:
        InputError: a value outside [0, 1].
    """
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise InputError(f"p value of {name!r} must be in [0, 1], given {p}")
    adjusted: dict[str, float] = {}
    highest = 0.0
    for position, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        highest = max(highest, min(1.0, p_values[name] * (len(p_values) - position)))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p_values}


def bootstrap_interval(
    values: Sequence[float], confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval of the mean over queries (Efron 1979). For a comparison, give the differences.

    Raises:
        InputError: no values, values that are not finite, or ``confidence`` not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, given {confidence}")
    if resamples < 1:
        raise InputError(f"resamples must be at least 1, given {resamples}")
    data = _finite(values)
    random = np.random.default_rng(seed)
    means = np.concatenate(
        [data[random.integers(0, len(data), size=(n, len(data)))].mean(axis=1) for n in _chunks(resamples, len(data))]
    )
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))


def _chunks(total: int, width: int) -> list[int]:
    size = max(1, _CHUNK // width)
    return [min(size, total - start) for start in range(0, total, size)]


def _differences(a: Sequence[float], b: Sequence[float]) -> NDArray[np.float64]:
    if len(a) != len(b):
        raise InputError(f"paired tests need values of the same queries, given {len(a)} and {len(b)} values")
    return _finite(a) - _finite(b)


def _finite(values: Sequence[float]) -> NDArray[np.float64]:
    if not len(values):
        raise InputError("no values given")
    data = np.asarray(values, dtype=np.float64)
    if not math.isfinite(float(data.sum())):
        raise InputError("values must be finite numbers")
    return data
