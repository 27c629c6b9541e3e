"""Attention sorting as a reranker: the most attended document first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rag.attention.types import Attender, AttentionMap, AttentionSpec, Head
from rag.registry import register
from rag.rerankers.map_reranker import MapReranker
from rag.types import Query

if TYPE_CHECKING:
    import torch

Pooling = Literal["mean", "sum"]


@register("reranker", "attention-sorting")
class AttentionSortingReranker(MapReranker):
    """Ranks by the attention of the prompt's last row (Peysakhovich and Lerer, arXiv 2310.01427).

    One step of the method as a relevance score, without calibration. Whether the paper sums or averages over a
    document's tokens is UNVERIFIED. The ordering ``attention-sort`` is the published use: the most attended last.

    Args:
        engine: reads attention where no shared pass is given.
        heads: the heads that are averaged, as (layer, head) pairs; None for all of them, as published.
        pooling: mean over a document's tokens (long documents get no advantage), or their sum.
    """

    note = "attention_sorting"

    def __init__(self, engine: Attender, *, heads: tuple[Head, ...] | None = None, pooling: Pooling = "mean") -> None:
        self._pooling = pooling
        super().__init__(engine, AttentionSpec(heads, ("last",)))

    def score(self, query: Query, answer: AttentionMap) -> torch.Tensor:  # noqa: ARG002 - the map was read for it
        """See `rag.rerankers.row_scores.attention_sorting_scores`."""
        from rag.rerankers.row_scores import attention_sorting_scores

        return attention_sorting_scores(answer, self.spec.heads, self._pooling)
