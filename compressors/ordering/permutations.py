"""Orders as permutations: pure functions from what is known of n documents to positions 0 to n-1."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def ascending(values: Sequence[float]) -> list[int]:
    """Positions by value, least first; equal values keep their order."""
    return sorted(range(len(values)), key=values.__getitem__)


def best_at_both_ends(order: Sequence[int]) -> list[int]:
    """The best first, the second last, the third second, and so on: the weakest stand in the middle.

    Liu et al., "Lost in the Middle" (TACL 2024): readers use the ends of their context best.
    """
    return [*order[::2], *reversed(order[1::2])]


def settle(count: int, step: Callable[[Sequence[int]], Sequence[int]], iterations: int) -> list[int]:
    """Reorder ``count`` documents by ``step`` until the order stays, at most ``iterations`` times.

    ``step`` gets the current order and returns the next, both as positions in the first order.
    """
    order = list(range(count))
    for _ in range(iterations):
        following = list(step(order))
        if following == order:
            break
        order = following
    return order
