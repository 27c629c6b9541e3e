"""Any reranker, with probabilities: how likely is each document relevant, and does anything here answer the query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rag import registry
from rag.attention.types import Attender, AttentionSpec, Engine
from rag.config import StageSettings
from rag.embedding import TextEmbedder
from rag.registry import register
from rag.rerankers.calibration_artefact import Judgement, RelevanceModel, identity
from rag.stages import Reranker
from rag.types import Query, ScoredDocument

_NOTHING_TO_READ = Judgement(0.0, (), True)


@register("reranker", "calibrated")
class CalibratedReranker:
    """Ranks as another reranker does, and notes in each trace what the scores mean.

    ``relevance``: the probability that the document is relevant; ``answerable``: that anything in the list is, never
    below the former; ``abstain``: 1 where ``answerable`` is below the threshold (nothing here answers this), else 0.
    Scores, ranks and order are those of the other reranker. A document without text has relevance 0.

    The probabilities hold for the kind of queries and the share of answerable ones that the calibrators were made
    with (`rag ltr calibrate`: every query once with and once without its relevant documents).

    Args:
        engine, embedder: for the other reranker.
        file: the calibrators that `rag ltr calibrate` wrote for it.
        reranker: the other reranker, by name or as ``{name: lambdamart, options: {...}}``.

    Raises:
        ArtefactError: the file is damaged, or was made for another reranker, model, wording or layout.
        ConfigError: an unknown reranker or option.
    """

    def __init__(
        self,
        engine: Engine,
        embedder: TextEmbedder | None = None,
        *,
        file: Path,
        reranker: StageSettings | str = "probe",
    ) -> None:
        name, options = (reranker, {}) if isinstance(reranker, str) else (reranker.name, reranker.options)
        self._model = RelevanceModel.load(file)
        self._model.check_reranker(identity(name, options))
        self._model.engine.check(engine, "calibrated relevance")
        shared = {"engine": lambda: engine, "embedder": lambda: embedder}
        self._reranker: Reranker = registry.build("reranker", name, options, shared)

    @property
    def spec(self) -> AttentionSpec | None:
        """What the other reranker reads; None where it reads no attention."""
        spec: AttentionSpec | None = getattr(self._reranker, "spec", None)
        return spec

    def rerank(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """See `rag.stages.Reranker`.

        Raises:
            InputError: no candidate's trace has a signal that the calibrators use; names it.
        """
        ranked = self._reranker.rerank(query, documents, attender=attender)
        read = [item for item in ranked if not item.document.is_empty]
        judged = _NOTHING_TO_READ
        if read:
            judged = self._model.judge([item.score for item in read], [item.trace for item in read])
        relevance = dict(zip((item.document.id for item in read), judged.relevance, strict=True))
        return [
            ScoredDocument(
                item.document,
                item.score,
                item.rank,
                {
                    **item.trace,
                    "relevance": relevance.get(item.document.id, 0.0),
                    "answerable": judged.answerable,
                    "abstain": int(judged.abstain),
                },
            )
            for item in ranked
        ]
