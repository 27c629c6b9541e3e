"""How much a ranking depends on the order that its candidates came in."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from rag.errors import InputError
from rag.stages import Reranker
from rag.types import Query, ScoredDocument

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OrderStability:
    """Scores of the same candidates read in several orders, compared.

    ``mean_tau`` and ``worst_tau`` are Kendall's tau over all pairs of orders: 1 where the ranking is always the
    same, 0 where two rankings have nothing in common. ``same_first`` is the share of pairs that agree on the best.
    """

    mean_tau: float
    worst_tau: float
    same_first: float
    orders: int


def shuffled(documents: Sequence[ScoredDocument], count: int, seed: int) -> list[list[ScoredDocument]]:
    """``count`` orders of the candidates: the given one, then random ones (the same for the same seed).

    Raises:
        InputError: fewer than 1.
    """
    if count < 1:
        raise InputError(f"the number of orders must be 1 or more, given {count}")
    source = random.Random(seed)
    return [list(documents), *(source.sample(documents, len(documents)) for _ in range(count - 1))]


def kendall_tau(first: Floats, second: Floats) -> float:
    """Kendall's tau-b of two lists of scores (n,); where one of them has no order at all, 1 if both have none, else 0.

    Fewer than two scores have no order.
    """
    from scipy.stats import kendalltau

    flat = [not len(scores) or float(scores.min()) == float(scores.max()) for scores in (first, second)]
    if any(flat):
        return float(all(flat))
    return round(float(kendalltau(first, second).statistic), 12)


def stability(scores: Floats) -> OrderStability:
    """Compare scores (orders, candidates), each column one candidate; a single order agrees with itself."""
    pairs = list(combinations(scores, 2))
    taus = [kendall_tau(first, second) for first, second in pairs] or [1.0]
    agree = [float(first.argmax() == second.argmax()) for first, second in pairs if len(first)] or [1.0]
    return OrderStability(sum(taus) / len(taus), min(taus), sum(agree) / len(agree), len(scores))


def scores_by_candidate(given: Sequence[ScoredDocument], ranked: Sequence[ScoredDocument]) -> list[float]:
    """The scores of a ranking in the order of ``given``."""
    found = {item.document.id: item.score for item in ranked}
    return [found[item.document.id] for item in given]


def order_stability(
    reranker: Reranker, query: Query, documents: Sequence[ScoredDocument], *, orders: int = 5, seed: int = 0
) -> OrderStability:
    """Rerank the candidates in ``orders`` orders (the given one and random ones) and compare the rankings.

    In the block layout every order gives the same ranking; in the causal layout a document is read with those before
    it, and does not. Each order is an attention pass of its own.

    Raises:
        InputError: fewer than 1 order.
    """
    runs = [
        scores_by_candidate(documents, reranker.rerank(query, order)) for order in shuffled(documents, orders, seed)
    ]
    return stability(np.array(runs, dtype=np.float64))
