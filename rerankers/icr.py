"""In-context reranking: all heads, content-free calibration (Chen et al., ICLR 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from rag.attention.types import Attender, AttentionSpec, Engine, Head
from rag.registry import register
from rag.rerankers.listwise import Scores, rerank_readable
from rag.types import Query, ScoredDocument


@register("reranker", "icr")
class IcrReranker:
    """Ranks by calibrated attention summed over heads and tokens; the retrieval score plays no part.

    Args:
        engine: reads attention where no shared pass is given.
        heads: heads to sum, as (layer, head) pairs; None for all of them, as published. On small models
            the sum over all heads ranks worse than BM25: see `rag.rerankers.heads`.
    """

    def __init__(self, engine: Engine, *, heads: tuple[Head, ...] | None = None) -> None:
        self._engine = engine
        self._heads = heads

    @property
    def spec(self) -> AttentionSpec:
        """What is read: these heads' mean rows, calibrated."""
        return AttentionSpec(self._heads, calibrated=True)

    def rerank(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """See `rag.stages.Reranker`."""
        return rerank_readable(documents, lambda given: self._scores(query, given, attender or self._engine))

    def _scores(self, query: Query, given: Sequence[ScoredDocument], attender: Attender) -> Scores:
        from rag.rerankers.scores import icr_scores

        answer = attender.attend(query, [item.document for item in given], self.spec)
        scores = icr_scores(answer, self._heads).tolist()
        return scores, {"icr": scores}
