"""Finding the heads of a model that carry relevance: the nDCG of the ranking that each head alone gives.

The retrieval-head method on BEIR-style labels (Zhang et al., EMNLP 2025): score every head by the mean
nDCG@10, over labelled queries, of the items sorted by its attention; take the best. Items are the documents
of a list, or all sentences of its documents.
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


def detect(
    engine: AttentionEngine,
    lists: Iterable[LabelledList],
    scorer: Scorer,
    *,
    layers: int | None = None,
    k: int = 10,
) -> dict[Head, float]:
    """Mean nDCG@k of each head, best head first.

    Args:
        engine: layout and wording are part of what is measured.
        lists: labelled candidate lists; one attention pass over all heads each.
        scorer: how one head's attention scores the items.
        layers: look at the lowest ``layers`` layers only (the upper ones are not run); None for all.
        k: cut-off of the measure.

    Raises:
        InputError: there is no list.
    """
    heads = tuple(head for head in engine.all_heads() if layers is None or head.layer < layers)
    spec = AttentionSpec(heads, calibrated=True)
    total, count = np.zeros(len(heads)), 0
    for item in lists:
        total += ndcg(scorer(engine.attend(item.query, item.documents, spec), item), item.gains, k)
        count += 1
    if not count:
        raise InputError("heads are found from labelled queries; none were given")
    order = np.argsort(-total, kind="stable")
    return {heads[place]: float(total[place] / count) for place in order}
