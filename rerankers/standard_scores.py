"""Standard scores of a list, in numpy: what makes the scores of different queries comparable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def standard_scores(values: Sequence[float] | Floats) -> Floats:
    """(x - mean) / standard deviation of the values that are there; NaN stays NaN, and equal values are all 0."""
    given = np.asarray(values, dtype=np.float64)
    there = given[~np.isnan(given)]
    if not there.size:
        return given.copy()
    spread = there.std() if there.max() > there.min() else 0.0
    # A spread at the limit of single precision is rounding, not a difference between documents.
    if spread <= 1e-6 * np.abs(there).max():
        return np.where(np.isnan(given), np.nan, 0.0)
    scores: Floats = (given - there.mean()) / spread
    return scores
