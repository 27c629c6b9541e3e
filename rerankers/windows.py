"""One score per document where a long one was read in several windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Literal

OverWindows = Literal["max", "mean"]
"""The best window counts (what answers a query is usually one passage), or all of them alike."""

_REDUCE: Mapping[OverWindows, Callable[[Sequence[float]], float]] = {"max": max, "mean": fmean}


def over_windows(
    scores: Sequence[float], owners: Sequence[int], documents: int, how: OverWindows = "max"
) -> tuple[list[float], list[int]]:
    """The score of each document and the number of its windows, from the windows' scores.

    Args:
        scores: one per window.
        owners: per window, the position of its document; every document has at least one.
        documents: how many there are.
        how: what counts.
    """
    windows: list[list[float]] = [[] for _ in range(documents)]
    for score, owner in zip(scores, owners, strict=True):
        windows[owner].append(float(score))
    return [_REDUCE[how](own) for own in windows], [len(own) for own in windows]
