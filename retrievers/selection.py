"""Choosing the k best of a score vector, the same way every time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def top_k(scores: NDArray[np.floating], k: int, last: NDArray[np.bool_] | None = None) -> NDArray[np.intp]:
    """Positions of the ``k`` highest of ``scores`` (n,), best first; all of them where ``k`` > n.

    Equal scores keep their order, also across the cut-off (argpartition alone would pick any of them). Among
    equal scores, positions where ``last`` (n,) is true come after the others.
    """
    positions = np.arange(len(scores))
    if k < len(scores):
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        positions = np.flatnonzero(scores >= threshold)
    behind = np.zeros(len(positions), dtype=bool) if last is None else last[positions]
    order = np.lexsort((positions, behind, -scores[positions]))
    return positions[order[:k]]
