"""Retrieval heads combined with the retrieval score: the default reranker."""

from __future__ import annotations

from collections.abc import Sequence

from rag.attention.types import Attender, AttentionSpec, Engine, Head
from rag.errors import InputError
from rag.registry import register
from rag.rerankers.listwise import by_score, readable
from rag.types import Query, ScoredDocument


@register("reranker", "heads")
class HeadReranker:
    """Ranks by a few chosen heads and the score that the candidates came with.

    Each head's calibrated document scores (Zhang et al., EMNLP 2025; here over the square root of the
    document's length) are z-scored within the list and averaged. The average, z-scored again, is added to
    the z-scored incoming score, times ``weight``. A few heads of a small model rank about as well as BM25
    and see other things, so the sum beats both.

    Args:
        engine: reads attention where no shared pass is given.
        heads: (layer, head) pairs; None for the list that ships with the model.
        weight: of the heads against the incoming score, 0 or more; None ranks by the heads alone.

    Raises:
        InputError: a negative weight.
        ConfigError: no heads are given and none ship for this model.
    """

    def __init__(self, engine: Engine, *, heads: tuple[Head, ...] | None = None, weight: float | None = 0.75) -> None:
        if weight is not None and not weight >= 0:
            raise InputError(f"weight of the heads must be 0 or more, or null for the heads alone; given {weight}")
        self._engine = engine
        self._heads = engine.default_heads("document") if heads is None else heads
        self._weight = weight

    @property
    def spec(self) -> AttentionSpec:
        """What is read: the chosen heads' mean rows, calibrated."""
        return AttentionSpec(self._heads, calibrated=True)

    def rerank(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """See `rag.stages.Reranker`."""
        import torch

        from rag.rerankers.scores import head_scores, zscore

        if not readable(documents):
            return list(documents)
        answer = (attender or self._engine).attend(query, [item.document for item in documents], self.spec)
        heads = zscore(zscore(head_scores(answer, self._heads)).mean(0))
        scores = heads
        if self._weight is not None:
            incoming = zscore(torch.tensor([item.score for item in documents], dtype=torch.float32))
            scores = incoming + self._weight * heads
        # A document without text was not read: it is last whatever its incoming score is.
        unread = torch.tensor([item.document.is_empty for item in documents])
        scores = torch.where(unread, scores.min() - 1, scores)
        return by_score(documents, scores.tolist(), {"heads": heads.tolist()})
