"""Finding the heads of a model that rank: the nDCG of the ranking that each head alone gives.

The retrieval-head method on BEIR-style labels (Zhang et al., EMNLP 2025): score every head by the mean
nDCG@10 over labelled queries of the documents sorted by its calibrated, masked attention; take the best.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rag.attention.types import AttentionSpec, Head
from rag.errors import InputError
from rag.types import Document, Query

if TYPE_CHECKING:
    from rag.attention.engine import AttentionEngine

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LabelledList:
    """A query, its candidates and their gains (0 is not relevant).

    Raises:
        InputError: no candidate is relevant: such a list says nothing about any head.
    """

    query: Query
    documents: tuple[Document, ...]
    gains: tuple[int, ...]

    def __post_init__(self) -> None:
        if not any(gain > 0 for gain in self.gains):
            raise InputError(f"query {self.query.id or self.query.text!r} has no relevant document among its candidates")


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


def detect(engine: AttentionEngine, lists: Iterable[LabelledList], k: int = 10) -> dict[Head, float]:
    """Mean nDCG@k of each of the model's heads, best head first.

    Args:
        engine: layout and wording are part of what is measured.
        lists: labelled candidate lists; one attention pass over all heads each.

    Raises:
        InputError: there is no list.
    """
    from rag.rerankers.scores import head_scores

    spec = AttentionSpec(calibrated=True)
    total, count = np.zeros(len(engine.all_heads())), 0
    for item in lists:
        answer = engine.attend(item.query, item.documents, spec)
        total += ndcg(head_scores(answer).double().numpy(), item.gains, k)
        count += 1
    if not count:
        raise InputError("heads are found from labelled queries; none were given")
    mean = total / count
    order = np.argsort(-mean, kind="stable")
    heads = engine.all_heads()
    return {heads[place]: float(mean[place]) for place in order}
