"""Ways to make one ranking of several: pure functions over hashable document keys.

Rankings are sequences of keys, best first, each key at most once. Score lists are mappings from key to score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from statistics import fmean, pstdev
from typing import TypeVar

from rag.errors import InputError

H = TypeVar("H", bound=Hashable)


def reciprocal_ranks(rankings: Sequence[Sequence[H]], k0: float = 60) -> dict[H, float]:
    """Sum of ``1 / (k0 + rank)`` over the rankings that hold a key (Cormack, Clarke and Büttcher 2009).

    Raises:
        InputError: ``k0`` is negative.
    """
    if not k0 >= 0:
        raise InputError(f"k0 must be at least 0, given {k0}")
    parts: dict[H, list[float]] = {}
    for ranking in rankings:
        for rank, key in enumerate(ranking, start=1):
            parts.setdefault(key, []).append(1 / (k0 + rank))
    # fsum is exact, so that the same ranks give the same score in whatever order the rankings come.
    return {key: math.fsum(terms) for key, terms in parts.items()}


def z_sum(scores: Sequence[Mapping[H, float]]) -> dict[H, float]:
    """Sum of z-scores; a key that a list lacks gets that list's lowest. A list of equal scores says nothing (0)."""
    return _normalised_sum(scores, _standardise)


def min_max_sum(scores: Sequence[Mapping[H, float]]) -> dict[H, float]:
    """Sum of scores scaled to [0, 1] per list (CombSUM, Fox and Shaw 1994); a key that a list lacks gets 0."""
    return _normalised_sum(scores, _scale)


def interleave(rankings: Sequence[Sequence[H]]) -> list[H]:
    """Take one key from each ranking in turn, skipping those already taken, until all are used up."""
    taken: dict[H, None] = {}
    rest = [iter(ranking) for ranking in rankings]
    while rest:
        rest = [ranking for ranking in rest if _take(ranking, taken)]
    return list(taken)


def _take(ranking: Iterable[H], taken: dict[H, None]) -> bool:
    """Move the next new key of an iterator to ``taken``; False where it has none left."""
    for key in ranking:
        if key not in taken:
            taken[key] = None
            return True
    return False


def _standardise(values: Sequence[float]) -> list[float]:
    mean, deviation = fmean(values), pstdev(values)
    return [(value - mean) / deviation if deviation else 0.0 for value in values]


def _scale(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]


def _normalised_sum(
    scores: Sequence[Mapping[H, float]], normalise: Callable[[Sequence[float]], list[float]]
) -> dict[H, float]:
    keys = dict.fromkeys(key for member in scores for key in member)
    parts: dict[H, list[float]] = {key: [] for key in keys}
    for member in filter(None, scores):
        values = dict(zip(member, normalise(list(member.values())), strict=True))
        lowest = min(values.values())
        for key in keys:
            parts[key].append(values.get(key, lowest))
    return {key: math.fsum(terms) for key, terms in parts.items()}
