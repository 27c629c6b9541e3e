"""A trained cross-encoder, through sentence-transformers (Nogueira and Cho 2019)."""

from __future__ import annotations

from collections.abc import Sequence

from rag.attention.types import Attender
from rag.checks import full_text
from rag.config import Device
from rag.models.cross_encoder import PairScorer
from rag.registry import register
from rag.rerankers.listwise import Scores, rerank_readable
from rag.rerankers.windows import OverWindows, over_windows
from rag.types import Query, ScoredDocument


@register("reranker", "cross-encoder")
class CrossEncoderReranker:
    """Ranks by the score that a cross-encoder gives to query and document together; the incoming score plays no part.

    A document that does not fit beside the query is read in overlapping windows, none of it is cut off. ``trace``
    holds the score under ``"cross-encoder"`` and the number of windows under ``"cross-encoder_windows"``.

    Args:
        model: a local folder or a hub name (``cross-encoder/ms-marco-MiniLM-L6-v2``) of a sequence classification
            model with one label. Loaded at the first use.
        device: where it runs; "auto" takes the best there is.
        batch_size: windows per forward pass.
        over_windows: what counts of a document's windows, "max" or "mean".

    Raises (from `rerank`):
        ModelNotFoundError: the model cannot be had, or cannot be loaded.
        UnsupportedModelError: it is no cross-encoder.
        QueryTooLongError: the query leaves no room for a document.
    """

    def __init__(
        self, model: str, *, device: Device = "auto", batch_size: int = 32, over_windows: OverWindows = "max"
    ) -> None:
        self._over_windows: OverWindows = over_windows
        self._scorer = PairScorer(model, device, batch_size)

    def rerank(
        self,
        query: Query,
        documents: Sequence[ScoredDocument],
        *,
        attender: Attender | None = None,  # noqa: ARG002 - a method without attention
    ) -> list[ScoredDocument]:
        """See `rag.stages.Reranker`."""
        return rerank_readable(documents, lambda given: self._scores(query, given))

    def _scores(self, query: Query, given: Sequence[ScoredDocument]) -> Scores:
        pairs = self._scorer.score(query.full_text, [full_text(item.document) for item in given])
        scores, windows = over_windows(pairs.scores.tolist(), pairs.owners.tolist(), len(given), self._over_windows)
        return scores, {"cross-encoder": scores, "cross-encoder_windows": windows}
