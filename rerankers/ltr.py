"""LambdaMART over lexical, retrieval and attention features: learned fusion of all that is known of a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from rag.attention.types import Attender, AttentionSpec, Engine, Head
from rag.registry import register
from rag.rerankers.listwise import Scores, rerank_readable
from rag.rerankers.ltr_artefact import LtrModel
from rag.rerankers.ltr_features import Candidates, FeatureGroup, Floats, feature_table, specs_of
from rag.types import Query, ScoredDocument


def table_of(
    query: Query,
    given: Sequence[ScoredDocument],
    groups: Sequence[FeatureGroup],
    heads: tuple[Head, ...],
    attender: Attender,
) -> Floats:
    """The feature table (D, F) of candidates that all have text; attention is read in one pass, and only if needed."""
    from rag.attention.shared import SharedPass

    shared = SharedPass(attender, query, specs_of(groups, heads))
    documents = [item.document for item in given]
    candidates = Candidates(query, tuple(given), heads, lambda spec: shared.attend(query, documents, spec))
    return feature_table(candidates, groups)


@register("reranker", "lambdamart")
class LambdaMartReranker:
    """Ranks by gradient-boosted trees fitted to nDCG (LightGBM) over the feature table of `rag.rerankers.ltr_features`.

    The features are those the model was trained with, and the candidates should come as they came in training (the
    ``fused`` retriever, about as many of them): a signal that the traces lack is a missing value.

    Args:
        engine: reads attention where no shared pass is given.
        model: the file that `rag ltr train` wrote; None for the one that ships.

    Raises:
        ArtefactError: the file is damaged, or was made for other features, another model, wording or layout.
        ConfigError: no file is given and none ships.
    """

    def __init__(self, engine: Engine, *, model: Path | None = None) -> None:
        artefact = LtrModel.shipped() if model is None else LtrModel.load(model)
        self._groups = artefact.feature_groups()
        self._heads = artefact.heads
        self._engine = engine
        self._trees = artefact.ranker(engine)

    @property
    def spec(self) -> AttentionSpec | None:
        """What the model's features read with attention; None where no feature does."""
        specs = specs_of(self._groups, self._heads)
        return reduce(AttentionSpec.union, specs) if specs else None

    def rerank(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """See `rag.stages.Reranker`."""
        return rerank_readable(documents, lambda given: self._scores(query, given, attender or self._engine))

    def _scores(self, query: Query, given: Sequence[ScoredDocument], attender: Attender) -> Scores:
        scores = self._trees.score(table_of(query, given, self._groups, self._heads, attender)).tolist()
        return scores, {"lambdamart": scores}
