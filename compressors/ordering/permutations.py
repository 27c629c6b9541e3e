"""Orders as permutations: pure functions from what is known of n documents to positions 0 to n-1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal


def ascending(values: Sequence[float]) -> list[int]:
    """Positions by value, least first; equal values keep their order."""
    return sorted(range(len(values)), key=values.__getitem__)


def descending(values: Sequence[float]) -> list[int]:
    """Positions by value, greatest first; equal values keep their order."""
    return sorted(range(len(values)), key=lambda i: -values[i])


def best_at_both_ends(order: Sequence[int]) -> list[int]:
    """The best first, the second last, the third second, and so on: the weakest stand in the middle.

    Liu et al., "Lost in the Middle" (TACL 2024): readers use the ends of their context best.
    """
    return [*order[::2], *reversed(order[1::2])]


def into_slots(order: Sequence[int], attention: Sequence[float]) -> list[int]:
    """The k-th of ``order`` put into the slot of the k-th greatest ``attention``; of equal slots the first is first."""
    placed = list(order)
    for item, slot in zip(order, descending(attention), strict=True):
        placed[slot] = item
    return placed


@dataclass(frozen=True, slots=True)
class Settled:
    """An order that was reached in so many steps, and why no further one was taken."""

    order: tuple[int, ...]
    steps: int
    stopped: Literal["order unchanged", "iterations", "cost"]


def settle(
    count: int,
    step: Callable[[Sequence[int]], Sequence[int]],
    iterations: int,
    affordable: Callable[[], bool] = lambda: True,
) -> Settled:
    """Reorder ``count`` documents by ``step`` until the order stays, at most ``iterations`` times (1 or more).

    ``step`` gets the current order and returns the next, both as positions in the first order. Before every
    step but the first, ``affordable`` says whether it may be taken.
    """
    order = tuple(range(count))
    for done in range(1, iterations + 1):
        following = tuple(step(order))
        if following == order:
            return Settled(order, done, "order unchanged")
        order = following
        if done < iterations and not affordable():
            return Settled(order, done, "cost")
    return Settled(order, iterations, "iterations")
