"""LambdaMART over lexical, retrieval and attention features: learned fusion of all that is known of a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rag.attention.types import Attender, AttentionSpec, Engine
from rag.registry import register
from rag.rerankers.listwise import Scores, rerank_readable
from rag.rerankers.ltr_artefact import LtrModel
from rag.rerankers.ltr_features import Candidates, feature_table, spec_of
from rag.types import Query, ScoredDocument


@register("reranker", "lambdamart")
class LambdaMartReranker:
    """Ranks by gradient-boosted trees fitted to nDCG (LightGBM) over the feature table of `rag.rerankers.ltr_features`.

    The features are those the model was trained with, and the candidates should come as they came in training (the
    ``fused`` retriever, about as many of them): a signal that the traces lack is a missing value.

    Args:
        engine: reads attention where no shared pass is given.
        model: the file that `rag ltr train` wrote; None for the one that ships with the engine's model.

    Raises:
        ArtefactError: the file is damaged, or was made for other features, another model, wording or layout.
        ConfigError: no file is given and none ships for the engine's model.
    """

    def __init__(self, engine: Engine, *, model: Path | None = None) -> None:
        artefact = LtrModel.choose(engine, model)
        self._engine = engine
        self._groups = artefact.feature_groups()
        self._heads = artefact.heads
        self._trees = artefact.ranker()

    @property
    def spec(self) -> AttentionSpec | None:
        """What the model's features read with attention; None where no feature does."""
        return spec_of(self._heads)

    def rerank(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """See `rag.stages.Reranker`."""

        def scores(given: Sequence[ScoredDocument]) -> Scores:
            candidates = Candidates.read(query, given, self._heads, attender or self._engine)
            values = self._trees.score(feature_table(candidates, self._groups)).tolist()
            return values, {"lambdamart": values}

        return rerank_readable(documents, scores)
