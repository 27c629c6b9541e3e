"""Retrieval heads combined with the retrieval score: the default reranker."""

from __future__ import annotations

from collections.abc import Sequence

from rag.attention.types import Attender, AttentionSpec, Engine, HeadChoice
from rag.errors import InputError
from rag.registry import register
from rag.rerankers.listwise import Scores, rerank_readable
from rag.types import Query, ScoredDocument


@register("reranker", "heads")
class HeadReranker:
    """Ranks by a few chosen heads and the score that the candidates came with.

    Each head's calibrated document scores (Zhang et al., EMNLP 2025; here over the square root of the
    document's length) are z-scored within the list and averaged. The average, z-scored again, is added to
    the z-scored incoming score, times ``weight``. A few heads of a small model rank about as well as BM25;
    what they add to a stronger incoming order is in docs/results.md.

    Args:
        engine: reads attention where no shared pass is given.
        heads: (layer, head) pairs, the file that `rag heads detect` wrote, or the name of a published list
            ("published:llama-3.1-8b-nq", see `rag heads list`); None for those of the engine's adapter, each with
            its trained weight, or the list that ships with the model, all alike.
        weight: of the heads against the incoming score, 0 or more; None ranks by the heads alone.

    Raises:
        InputError: a negative weight.
        ConfigError: no heads are given and none ship for this model, or a published list that is not known.
        ArtefactError: a file of heads that is damaged, or was made for another model, wording, layout or task; a
            published list for a model of another shape.
    """

    def __init__(self, engine: Engine, *, heads: HeadChoice = None, weight: float | None = 0.75) -> None:
        if weight is not None and not weight >= 0:
            raise InputError(f"weight of the heads must be 0 or more, or null for the heads alone; given {weight}")
        self._engine = engine
        self._heads = engine.choose_heads("document", heads)
        self._head_weights = (engine.default_weights("document") if heads is None else None) or (1.0,)
        self._weight = weight

    @property
    def spec(self) -> AttentionSpec:
        """What is read: the chosen heads' mean rows, calibrated."""
        return AttentionSpec(self._heads, calibrated=True)

    def rerank(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """See `rag.stages.Reranker`."""
        return rerank_readable(documents, lambda given: self._scores(query, given, attender or self._engine))

    def _scores(self, query: Query, given: Sequence[ScoredDocument], attender: Attender) -> Scores:
        import torch

        from rag.rerankers.scores import head_scores, zscore

        answer = attender.attend(query, [item.document for item in given], self.spec)
        weights = torch.tensor(self._head_weights, dtype=torch.float64)[:, None]
        heads = zscore((weights * zscore(head_scores(answer, self._heads))).mean(0))
        scores = heads
        if self._weight is not None:
            incoming = zscore(torch.tensor([item.score for item in given], dtype=torch.float64))
            scores = incoming + self._weight * heads
        return scores.tolist(), {"heads": heads.tolist()}
