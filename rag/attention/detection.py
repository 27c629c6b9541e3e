"""Finding the heads of a model that carry relevance, from labelled queries.

Every head scores the items of every list by its attention alone; a criterion says how well that fits the labels; the
heads with the best mean over the lists are kept. Items are the documents of a list, or all sentences of its documents.
Three criteria are known, see `CRITERIA`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rag.attention.types import AttentionMap, AttentionSpec, Head
from rag.errors import InputError
from rag.types import Document, Query, Span

if TYPE_CHECKING:
    from rag.attention.engine import AttentionEngine

Floats = npt.NDArray[np.float64]

DEFAULT_TEMPERATURE = 0.5
"""Of `contrastive`, on scores with standard deviation 1."""


@dataclass(frozen=True, slots=True)
class LabelledList:
    """A query, its candidates and the gains of the items to rank (0 is not relevant).

    The items are the documents, or, where ``sentences`` gives the spans of each document, all of these.

    Raises:
        InputError: no item is relevant: such a list says nothing about any head.
    """

    query: Query
    documents: tuple[Document, ...]
    gains: tuple[int, ...]
    sentences: tuple[tuple[Span, ...], ...] = ()

    def __post_init__(self) -> None:
        if not any(gain > 0 for gain in self.gains):
            raise InputError(f"query {self.query.id or self.query.text!r} has nothing relevant among its candidates")


Scorer = Callable[[AttentionMap, LabelledList], Floats]
"""Scores (H, items) of a list's items by each head of a map that was read with mean rows and calibration."""


def ndcg(scores: Floats, gains: Sequence[int], k: int = 10) -> Floats:
    """nDCG@k of every row of ``scores`` (H, D) against one list of gains; the gain is linear.

    As a criterion: the retrieval-head method on BEIR-style labels (Zhang et al., EMNLP 2025).

    Equal scores are ranked by position, later first: a head that gives nothing must not profit from the
    order its candidates came in.
    """
    gain = np.asarray(gains, dtype=np.float64)
    k = min(k, gain.size)
    discount = 1 / np.log2(np.arange(2, k + 2))
    ideal = float(np.sort(gain)[::-1][:k] @ discount)
    order = np.argsort(scores, axis=-1, kind="stable")[:, ::-1][:, :k]
    dcg: Floats = gain[order] @ discount
    return dcg / ideal


def gold_mass(scores: Floats, gains: Sequence[int]) -> Floats:
    """The sum of each head's scores (H, D) of the relevant items: the QR score (Zhang et al., EMNLP 2025), (H,).

    It prefers heads with much attention to give, and does not ask what they give to the other items. An item
    without a token (score -inf) adds nothing.
    """
    relevant = scores[:, np.asarray(gains) > 0]
    mass: Floats = np.where(np.isfinite(relevant), relevant, 0.0).sum(axis=-1)
    return mass


def contrastive(scores: Floats, gains: Sequence[int], temperature: float = DEFAULT_TEMPERATURE) -> Floats:
    """How far each head lifts the relevant items over the others: (H, D) to (H,), at most 0.

    The scores are z-scored within the list; of each relevant item p the logarithm of
    ``exp(z_p / temperature) / (exp(z_p / temperature) + sum over not relevant n of exp(z_n / temperature))`` is
    taken, and its mean over the relevant items. In the manner of CoRe heads (arXiv 2510.02219), whose own formula is
    UNVERIFIED. An item without a token (score -inf) is left out; a list in which that leaves nothing relevant gives 0.
    """
    relevant = np.asarray(gains) > 0
    there = np.isfinite(scores).all(axis=0)
    positive, negative = relevant[there], ~relevant[there]
    if not positive.any():
        return np.zeros(len(scores))
    given = scores[:, there]
    centred = given - given.mean(axis=-1, keepdims=True)
    spread = centred.std(axis=-1, keepdims=True)
    differ = spread > 1e-12 * np.abs(given).max(axis=-1, keepdims=True)  # below that it is rounding
    logits = np.divide(centred, spread, out=np.zeros_like(centred), where=differ) / temperature
    others = np.logaddexp.reduce(logits[:, negative], axis=-1, initial=-np.inf)[:, None]
    chosen = logits[:, positive]
    lift: Floats = (chosen - np.logaddexp(chosen, others)).mean(axis=-1)
    return lift


Criterion = Callable[[Floats, Sequence[int]], Floats]
"""How well each head's scores (H, items) of one list fit its gains: (H,), greater is better."""

CRITERIA: dict[str, Criterion] = {"ndcg": ndcg, "qr": gold_mass, "contrastive": contrastive}
"""The criteria by name: nDCG@10 of the ranking each head alone gives, QR score, contrastive."""


def detect(
    engine: AttentionEngine,
    lists: Iterable[LabelledList],
    scorer: Scorer,
    *,
    criterion: Criterion = ndcg,
    layers: int | None = None,
) -> dict[Head, float]:
    """Mean of a criterion over the lists for each head, best head first.

    Args:
        engine: layout and wording are part of what is measured.
        lists: labelled candidate lists; one attention pass over all heads each.
        scorer: how one head's attention scores the items.
        criterion: how a head's scores of one list are judged.
        layers: look at the lowest ``layers`` layers only (the upper ones are not run); None for all.

    Raises:
        InputError: there is no list.
    """
    heads = tuple(head for head in engine.all_heads() if layers is None or head.layer < layers)
    spec = AttentionSpec(heads, calibrated=True)
    total, count = np.zeros(len(heads)), 0
    for item in lists:
        total += criterion(scorer(engine.attend(item.query, item.documents, spec), item), item.gains)
        count += 1
    if not count:
        raise InputError("heads are found from labelled queries; none were given")
    order = np.argsort(-total, kind="stable")
    return {heads[place]: float(total[place] / count) for place in order}
