"""Standard scores of a list: what makes the scores of different heads, retrievers and queries comparable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def standard_scores(values: Sequence[float] | Floats) -> Floats:
    """(x - mean) / standard deviation over the last axis; NaN stays NaN and does not count, equal values are all 0."""
    given = np.asarray(values, dtype=np.float64)
    there = ~np.isnan(given)
    known = np.where(there, given, 0.0)
    count = np.maximum(there.sum(-1, keepdims=True), 1)
    centred = np.where(there, known - known.sum(-1, keepdims=True) / count, 0.0)
    spread = np.sqrt((centred**2).sum(-1, keepdims=True) / count)
    # A spread at the limit of single precision is rounding, not a difference between items.
    differ = spread > 1e-6 * np.abs(known).max(-1, keepdims=True, initial=0.0)
    scores: Floats = np.where(there, np.where(differ, centred / np.where(differ, spread, 1.0), 0.0), np.nan)
    return scores
