"""In-context reranking: all heads, content-free calibration (Chen et al., ICLR 2025)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag.attention.types import Attender, AttentionMap, AttentionSpec, Head
from rag.registry import register
from rag.rerankers.map_reranker import MapReranker
from rag.types import Query

if TYPE_CHECKING:
    import torch


@register("reranker", "icr")
class IcrReranker(MapReranker):
    """Ranks by calibrated attention summed over heads and tokens; the retrieval score plays no part.

    Args:
        engine: reads attention where no shared pass is given.
        heads: heads to sum, as (layer, head) pairs; None for all of them, as published. On small models
            the sum over all heads ranks worse than BM25: see `rag.rerankers.heads`.
    """

    note = "icr"

    def __init__(self, engine: Attender, *, heads: tuple[Head, ...] | None = None) -> None:
        super().__init__(engine, AttentionSpec(heads, calibrated=True))

    def score(self, query: Query, answer: AttentionMap) -> torch.Tensor:  # noqa: ARG002 - the map was read for it
        """See `rag.rerankers.scores.icr_scores`."""
        from rag.rerankers.scores import icr_scores

        return icr_scores(answer, self.spec.heads)
