from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.compressors.select import joint_cost, select
from rag.errors import InputError

UTILITY = st.integers(-2, 9)
ITEMS = st.lists(st.tuples(st.integers(0, 7), UTILITY), max_size=9)
JOINED = st.lists(st.tuples(st.tuples(*[st.integers(0, 6)] * 3), UTILITY, st.booleans()), min_size=1, max_size=7)


def greedy(costs: list[int], utilities: list[int], limit: int) -> int:
    total = left = 0
    left = limit
    for item in sorted(range(len(costs)), key=lambda i: -utilities[i] / max(costs[i], 1)):
        if utilities[item] > 0 and costs[item] <= left:
            total, left = total + utilities[item], left - costs[item]
    return total


@given(ITEMS, st.integers(0, 30))
def test_plain_knapsack_is_feasible_and_no_worse_than_greedy(items: list[tuple[int, int]], limit: int) -> None:
    costs, utilities = [c for c, _ in items], [u for _, u in items]
    kept = select(costs, utilities, limit)
    assert list(kept) == sorted(set(kept))
    assert sum(costs[i] for i in kept) <= limit
    assert all(utilities[i] > 0 for i in kept)
    assert sum(utilities[i] for i in kept) >= greedy(costs, utilities, limit)
    assert kept == select(costs, utilities, limit)


@given(ITEMS, st.integers(0, 30), st.randoms(use_true_random=False))
def test_the_optimum_does_not_depend_on_the_order(items: list[tuple[int, int]], limit: int, random: object) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    values = [
        sum(given_[i][1] for i in select([c for c, _ in given_], [u for _, u in given_], limit))
        for given_ in (items, shuffled)
    ]
    assert values[0] == values[1]


def test_equal_choices_keep_the_earlier_items() -> None:
    assert select([2, 2, 2, 2], [1, 1, 1, 1], 5) == (0, 1)


@given(JOINED, st.integers(0, 20))
@settings(deadline=None)
def test_joined_costs_reach_the_optimum_of_brute_force(
    items: list[tuple[tuple[int, int, int], int, bool]], limit: int
) -> None:
    costs, utilities = [c for c, _, _ in items], [u for _, u, _ in items]
    opens = [True, *(o for _, _, o in items[1:])]
    kept = select(costs, utilities, limit, opens=opens)
    positive = [i for i, utility in enumerate(utilities) if utility > 0]
    best = max(
        sum(utilities[i] for i in chosen)
        for size in range(len(positive) + 1)
        for chosen in combinations(positive, size)
        if not chosen or joint_cost(chosen, costs, opens) <= limit
    )
    assert not kept or joint_cost(kept, costs, opens) <= limit
    assert sum(utilities[i] for i in kept) == best


def test_a_long_item_does_not_end_the_search() -> None:
    # By score the long one comes first and fills nothing; by stopping there, two thirds of the value are lost.
    assert select([11, 5, 5], [10, 9, 9], 10) == (1, 2)


@given(ITEMS, st.integers(0, 30), st.integers(1, 60))
def test_the_bounded_method_is_feasible_and_no_worse_than_greedy(
    items: list[tuple[int, int]], limit: int, max_cells: int
) -> None:
    costs, utilities = [c for c, _ in items], [u for _, u in items]
    kept = select(costs, utilities, limit, max_cells=max_cells)
    value = sum(utilities[i] for i in kept)
    optimum = sum(utilities[i] for i in select(costs, utilities, limit))
    assert sum(costs[i] for i in kept) <= limit
    assert greedy(costs, utilities, limit) <= value <= optimum
    assert 2 * value >= optimum


@given(JOINED, st.integers(0, 20), st.integers(1, 60))
def test_the_bounded_method_holds_the_limit_for_joined_costs(
    items: list[tuple[tuple[int, int, int], int, bool]], limit: int, max_cells: int
) -> None:
    costs, utilities = [c for c, _, _ in items], [u for _, u, _ in items]
    opens = [True, *(o for _, _, o in items[1:])]
    kept = select(costs, utilities, limit, opens=opens, max_cells=max_cells)
    assert not kept or joint_cost(kept, costs, opens) <= limit
    optimum = sum(utilities[i] for i in select(costs, utilities, limit, opens=opens))
    assert sum(utilities[i] for i in kept) <= optimum


def test_the_bounded_method_uses_the_room_of_ellipses_that_are_not_needed() -> None:
    costs = [[6, 6, 8]] * 1000
    kept = select(costs, [1.0] * 1000, 600, opens=[i == 0 for i in range(1000)], max_cells=1000)
    assert kept == tuple(range(99))  # all charged 8, it would be 75; the room left is below the dearest cost


def test_ten_thousand_sentences_lose_almost_nothing() -> None:
    generator = np.random.default_rng(0)
    costs = generator.integers(5, 60, 10_000)
    utilities = generator.random(10_000) * costs
    kept = list(select(costs, utilities, 50_000))
    assert costs[kept].sum() <= 50_000
    order = np.argsort(-utilities / costs)
    filled = np.cumsum(costs[order])
    relaxed = np.interp(50_000, filled, np.cumsum(utilities[order]))  # upper bound: the last item may be cut
    assert utilities[kept].sum() > 0.9999 * relaxed


@pytest.mark.parametrize(
    ("costs", "utilities", "limit", "message"),
    [
        ([1, 2], [1.0], 3, "2 costs, 1 utilities"),
        ([-1], [1.0], 3, "must not be negative"),
        ([1], [1.0], -3, "must not be negative"),
        ([1], [float("nan")], 3, "numbers below infinity"),
    ],
)
def test_bad_input(costs: list[int], utilities: list[float], limit: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        select(costs, utilities, limit)
