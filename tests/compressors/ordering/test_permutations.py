from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rag.compressors.ordering.permutations import ascending, best_at_both_ends, settle


@given(st.lists(st.integers(0, 3)))
def test_ascending_is_a_stable_permutation(values: list[int]) -> None:
    order = ascending(values)
    assert sorted(order) == list(range(len(values)))
    pairs = [(values[i], i) for i in order]
    assert pairs == sorted(pairs)


@given(st.permutations(range(9)), st.integers(0, 9))
def test_best_at_both_ends_puts_each_next_one_further_inside(order: list[int], count: int) -> None:
    given_ = order[:count]
    placed = best_at_both_ends(given_)
    assert sorted(placed) == sorted(given_)
    depth = [min(placed.index(item), count - 1 - placed.index(item)) for item in given_]
    assert depth == sorted(depth)


def test_best_at_both_ends_of_six() -> None:
    assert best_at_both_ends([0, 1, 2, 3, 4, 5]) == [0, 2, 4, 5, 3, 1]


@given(st.integers(0, 6), st.integers(1, 10))
def test_settle_stops_at_a_fixed_point_or_at_the_cap(count: int, iterations: int) -> None:
    calls: list[list[int]] = []

    def step(order: Sequence[int]) -> list[int]:
        """One round of bubble sort towards descending order."""
        calls.append(list(order))
        following = list(order)
        for i in range(count - 1):
            if following[i] < following[i + 1]:
                following[i : i + 2] = following[i + 1], following[i]
        return following

    settled = settle(count, step, iterations)
    assert sorted(settled) == list(range(count))
    assert len(calls) <= iterations
    assert len(calls) == iterations or settled == sorted(settled, reverse=True)
