"""BlockRank's inference score: the documents' shares of one layer's attention at the end of the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag.attention.types import AttentionMap, AttentionSpec, Engine
from rag.errors import InputError
from rag.registry import register
from rag.rerankers.map_reranker import MapReranker
from rag.types import Query

if TYPE_CHECKING:
    import torch

PUBLISHED_LAYER, PUBLISHED_LAYERS = 20, 32
"""The paper's layer, and the layers of its model (Mistral-7B)."""


@register("reranker", "blockrank")
class BlockRankReranker(MapReranker):
    """Ranks by one layer's attention over the document tokens alone (Gupta et al., arXiv 2510.05396).

    The published figures need a model that was fine-tuned for this (its contrastive loss trains exactly this
    score): a model that was not ranks hardly better than chance by it (docs/heads.md). The engine's block layout
    is the paper's, but for a prefix without the query, so that blocks can be kept. The paper reads the rows of the
    answer's first token "[" and of the one before; the prompt here has no answer, and its last two rows are read.

    Args:
        engine: reads attention where no shared pass is given.
        layer: which layer, from 0; None for the published depth, layer 20 of 32, in proportion.

    Raises:
        InputError: a layer outside the model.
    """

    note = "blockrank"

    def __init__(self, engine: Engine, *, layer: int | None = None) -> None:
        heads = engine.all_heads()
        layers = heads[-1].layer + 1
        self.layer = layers * PUBLISHED_LAYER // PUBLISHED_LAYERS if layer is None else layer
        if not 0 <= self.layer < layers:
            raise InputError(f"layer {layer} is outside the model: accepted are layers 0 to {layers - 1}")
        super().__init__(engine, AttentionSpec(tuple(head for head in heads if head.layer == self.layer), ("all",)))

    def score(self, query: Query, answer: AttentionMap) -> torch.Tensor:  # noqa: ARG002 - the map was read for it
        """See `rag.rerankers.row_scores.blockrank_scores`."""
        from rag.rerankers.row_scores import blockrank_scores

        return blockrank_scores(answer, self.spec.heads)
