"""A trained LambdaMART model as one JSON file: LightGBM's own text, and all that it was trained with."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal, Self

from rag.artefacts import Artefact, EngineIdentity, TrainedOn, seen, shipped_for
from rag.attention.types import Engine, Head
from rag.errors import ArtefactError, RagError
from rag.rerankers.ltr_features import FeatureGroup, choose_groups, features_of
from rag.rerankers.ltr_trees import Trees


class LtrModel(Artefact, frozen=True):
    """Trees with their feature table, and where they come from.

    ``features`` are the columns in order, ``increasing`` those that the trees are monotone in. ``engine`` and ``heads``
    say what attention was read with; None and empty where no feature reads attention. The lists were the ``k`` best of
    ``retriever``. ``parameters`` say how the trees were grown, ``figures`` the mean nDCG@10 of each collection and
    order; ``digest`` is the SHA-256 of ``trees``.
    """

    refusal: ClassVar[str] = "is not a LambdaMART model"

    format: Literal["rag.ltr/1"] = "rag.ltr/1"
    groups: tuple[str, ...]
    features: tuple[str, ...]
    increasing: tuple[str, ...]
    engine: EngineIdentity | None
    heads: tuple[Head, ...]
    retriever: str
    k: int
    data: tuple[TrainedOn, ...]
    parameters: dict[str, int | float]
    rounds: int
    figures: dict[str, float]
    versions: dict[str, str]
    digest: str
    trees: str

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a model and check that it is whole.

        Raises:
            ArtefactError: the file cannot be read as one, or was changed; names the file.
        """
        model = super().load(path)
        found = digest(model.trees)
        if found != model.digest:
            raise ArtefactError(f"{path}: expected trees of digest {model.digest}, found {found}: it is damaged")
        return model

    @classmethod
    def choose(cls, engine: Engine, given: Path | None) -> LtrModel:
        """The model of a file, or the one that ships for the engine's model.

        Raises:
            ArtefactError: a file that is no LambdaMART model, is damaged, or was made with another model, wording or
                layout.
            ConfigError: no file is given and none ships for the engine's model.
        """
        if given is not None:
            model = cls.load(given)
            if model.engine is not None:
                model.engine.check(engine, f"LambdaMART model {given}")
            return model
        return shipped_for(
            engine,
            "LambdaMART model",
            ((item.engine, item) for item in shipped() if item.engine is not None),
            "Train one with `rag ltr train`, and name its file (option model)",
        )

    def feature_groups(self) -> tuple[FeatureGroup, ...]:
        """The groups that make the model's table.

        Raises:
            ArtefactError: this version has not the same features; says expected and found.
        """
        try:
            groups = choose_groups(self.groups)
        except RagError as error:
            raise ArtefactError(f"LambdaMART model: {error}") from None
        found = tuple(feature.name for feature in features_of(groups))
        if found != self.features:
            expected, given = ", ".join(self.features), ", ".join(found)
            raise ArtefactError(f"LambdaMART model: expected features {expected}; found {given}")
        return groups

    def ranker(self) -> Trees:
        """The trees, ready to score.

        Raises:
            ArtefactError: LightGBM cannot read them.
        """
        return Trees.from_text(self.trees, self.features)

    def trained_on(self, queries: dict[str, str]) -> tuple[str, ...]:
        """Those query ids of ``queries`` (id to text) whose text was learned from: they may not judge the model."""
        return seen(self.data, queries)


@cache
def shipped() -> tuple[LtrModel, ...]:
    """The models that come with the package."""
    return LtrModel.shipped_in("ltr")


def digest(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
