"""Choosing sentences under a budget: the optimum, not a greedy stop at the first one that does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rag.errors import InputError

MAX_CELLS = 5_000_000

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# What stands before a sentence in the joined text: nothing of its document, its neighbour, or an ellipsis.
OPENING, NEIGHBOUR, ELLIPSIS = range(3)


def select(
    costs: ArrayLike,
    utilities: ArrayLike,
    limit: int,
    *,
    opens: ArrayLike | None = None,
    max_cells: int = MAX_CELLS,
) -> tuple[int, ...]:
    """The items with the greatest summed utility whose joint cost is at most ``limit``.

    Args:
        costs: whole numbers above or equal to 0, shape (n,): what each item costs. Or shape (n, 3), for
            sentences that are joined: the cost of an item that is the first kept one of its document,
            that follows its kept neighbour, and that follows an ellipsis.
        utilities: shape (n,); an item of utility 0 or less is never taken. ``-inf`` forbids one.
        limit: the most that the chosen items may cost together.
        opens: whether each item is the first of its document; None where every item stands alone.
        max_cells: the size of the exact dynamic programme, items times (limit + 1), above which the bounded
            method below is used.

    Returns:
        The chosen positions, ascending; the earlier items among choices of equal utility. Empty where
        nothing fits.

    Up to ``max_cells`` the result is the exact optimum (0/1 knapsack whose item costs depend on the item
    before it). Above it every item is charged its dearest cost, items are taken by utility per cost while
    they fit, and the knapsack is solved exactly over the items around the first that did not fit (the core;
    Balas and Zemel, Operations Research 1980). The result is never worse than that greedy choice, nor
    than the best single item, hence at least half the optimum under those charges; it is within one item
    of it where items are small against the limit.

    Raises:
        InputError: shapes that do not agree, a negative cost or limit, a NaN or ``+inf`` utility.
    """
    table = np.asarray(costs, dtype=np.int64)
    table = np.repeat(table[:, None], 3, axis=1) if table.ndim == 1 else table
    values = np.asarray(utilities, dtype=np.float64)
    starts = np.ones(len(values), bool) if opens is None else np.asarray(opens, bool)
    if table.shape != (len(values), 3) or starts.shape != values.shape:
        raise InputError(f"{table.shape[0]} costs, {len(values)} utilities and {len(starts)} opens: must be as many")
    if limit < 0 or (table < 0).any():
        raise InputError(f"costs and limit must not be negative, given limit {limit} and costs from {table.min()}")
    if np.isnan(values).any() or np.isposinf(values).any():
        raise InputError("utilities must be numbers below infinity")
    limit = min(limit, int(table.max(axis=1, initial=0).sum()))
    if len(values) * (limit + 1) <= max_cells:
        return _optimum(table, values, limit, starts)
    return _bounded(table, values, limit, starts, max_cells)


def joint_cost(kept: ArrayLike, costs: ArrayLike, opens: ArrayLike) -> int:
    """What the items ``kept`` (ascending) cost together, with ``costs`` of shape (n, 3) as in `select`."""
    table = np.asarray(costs, dtype=np.int64)
    chosen = np.asarray(kept, dtype=np.int64)
    document = np.cumsum(np.asarray(opens, bool))[chosen]
    before = np.full(len(chosen), ELLIPSIS)
    before[1:][np.diff(chosen) == 1] = NEIGHBOUR
    before[np.diff(document, prepend=-1) != 0] = OPENING
    return int(table[chosen, before].sum())


def _optimum(costs: Ints, utilities: Floats, limit: int, opens: NDArray[np.bool_]) -> tuple[int, ...]:
    """Exact dynamic programme over items in order; ``best[s, c]``: most utility of cost <= c ending in state s.

    The states say what an item taken next would follow: nothing of its document, its neighbour, an ellipsis.
    """
    n = len(utilities)
    best = np.full((3, limit + 1), -np.inf)
    best[OPENING] = 0.0
    # Per item and cost, where the best way came from: bits 0-1 the state before an item that is taken, bit 2
    # set where an item is skipped right after its neighbour, bits 3-4 the state in which the last document ended.
    came = np.zeros((n, limit + 1), dtype=np.uint8)
    for item in range(n):
        if opens[item]:
            ended = best.argmax(axis=0)
            came[item] |= ended.astype(np.uint8) << 3
            best[OPENING] = best.max(axis=0)
            best[1:] = -np.inf
        taken = np.full((3, limit + 1), -np.inf)
        if utilities[item] > 0:
            for state, cost in enumerate(costs[item]):
                if cost <= limit:
                    taken[state, cost:] = best[state, : limit + 1 - cost] + utilities[item]
        came[item] |= taken.argmax(axis=0).astype(np.uint8)
        came[item] |= (best[NEIGHBOUR] > best[ELLIPSIS]).astype(np.uint8) << 2
        np.maximum(best[ELLIPSIS], best[NEIGHBOUR], out=best[ELLIPSIS])
        best[NEIGHBOUR] = taken.max(axis=0)
    state = int(best[:, limit].argmax())
    left = int(np.argmax(best[state] == best[state, limit]))
    kept: list[int] = []
    for item in reversed(range(n)):
        way = int(came[item, left])
        if state == NEIGHBOUR:
            kept.append(item)
            state = way & 3
            left -= int(costs[item, state])
            way = int(came[item, left])
        elif state == ELLIPSIS and way & 4:
            state = NEIGHBOUR
        if opens[item]:
            state = way >> 3
    return tuple(reversed(kept))


def _bounded(table: Ints, utilities: Floats, limit: int, opens: NDArray[np.bool_], max_cells: int) -> tuple[int, ...]:
    """A choice of bounded cost: see `select`."""
    costs = table.max(axis=1)
    usable = np.flatnonzero((utilities > 0) & (costs <= limit))
    if not len(usable):
        return ()
    order = usable[np.argsort(-utilities[usable] / np.maximum(costs[usable], 1), kind="stable")]
    choices = [_fill([], order, costs, limit), [int(order[np.argmax(utilities[order])])]]
    fits = int(np.searchsorted(np.cumsum(costs[order]), limit, side="right"))
    half = 512
    while half:
        certain, core = order[: max(0, fits - half)], order[max(0, fits - half) : fits + half]
        room = limit - int(costs[certain].sum())
        cells = len(core) * (min(room, int(costs[core].sum())) + 1)
        if cells <= max_cells:
            chosen = select(costs[core], utilities[core], room, max_cells=max_cells)
            kept = [*certain.tolist(), *core[list(chosen)].tolist()]
            choices.append(_fill(kept, order, costs, limit - int(costs[kept].sum())))
            break
        half //= 2
    best = max(choices, key=lambda kept: float(utilities[np.array(kept)].sum()))
    # Charging every item its dearest cost leaves room where neighbours are kept together: fill that too.
    while True:
        more = sorted(_fill(best, order, costs, limit - joint_cost(sorted(best), table, opens)))
        if len(more) == len(best) or joint_cost(more, table, opens) > limit:
            return tuple(sorted(best))
        best = more


def _fill(kept: list[int], order: NDArray[Any], costs: Ints, left: int) -> list[int]:
    """``kept`` and every further item of ``order`` that still fits in what is left."""
    chosen, have = list(kept), set(kept)
    for item in order.tolist():
        if item not in have and costs[item] <= left:
            chosen.append(item)
            left -= int(costs[item])
    return chosen
