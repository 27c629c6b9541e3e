from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rag.compressors.ordering.permutations import ascending, best_at_both_ends, descending, into_slots, settle


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


@given(st.lists(st.integers(0, 3), max_size=9))
def test_into_slots_gives_the_best_item_the_most_attended_slot(attention: list[int]) -> None:
    order = list(range(len(attention)))[::-1]
    placed = into_slots(order, attention)
    assert sorted(placed) == sorted(order)
    assert [placed[slot] for slot in descending(attention)] == order


def test_into_slots_of_a_basin() -> None:
    assert into_slots([3, 0, 1, 2], [1.0, 0.4, 0.5, 2.0]) == [0, 2, 1, 3]


def bubble(order: Sequence[int]) -> list[int]:
    """One round of bubble sort towards descending order."""
    following = list(order)
    for i in range(len(following) - 1):
        if following[i] < following[i + 1]:
            following[i : i + 2] = following[i + 1], following[i]
    return following


@given(st.integers(0, 6), st.integers(1, 10), st.integers(0, 10))
def test_settle_says_why_it_stopped(count: int, iterations: int, affordable: int) -> None:
    calls: list[list[int]] = []

    def step(order: Sequence[int]) -> list[int]:
        calls.append(list(order))
        return bubble(order)

    settled = settle(count, step, iterations, lambda: len(calls) <= affordable)
    assert sorted(settled.order) == list(range(count))
    assert settled.steps == len(calls) <= iterations
    match settled.stopped:
        case "order unchanged":
            assert list(settled.order) == calls[-1] == sorted(range(count), reverse=True)
        case "iterations":
            assert len(calls) == iterations
        case "cost":
            assert len(calls) == affordable + 1 < iterations
    assert settled.stopped == "order unchanged" or list(settled.order) == bubble(calls[-1])
