"""LambdaMART through LightGBM: gradient-boosted trees fitted to nDCG over labelled lists (Burges 2010).

All that LightGBM is given is checked here first: its own checks end in a crash, or in numbers, more often than in an
error. D documents of a list, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.errors import ArtefactError, InputError, shown

Floats = npt.NDArray[np.float64]

MOST_GRADE = 31
"""Grades above this are refused: a grade is an index into LightGBM's table of gains."""


@dataclass(frozen=True, slots=True)
class LabelledFeatures:
    """One query's candidates: their features (D, F; NaN is a missing value) and grades (D,), 0 is not relevant.

    Raises:
        InputError: shapes that do not fit, an infinite feature, or a grade outside 0 to `MOST_GRADE`.
    """

    query: str
    values: Floats
    grades: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or len(self.values) != len(self.grades) or not self.grades:
            raise InputError(
                f"query {shown(self.query)}: features of shape {self.values.shape} and {len(self.grades)} grades; "
                "accepted: one row of features per grade, and at least one"
            )
        if np.isinf(self.values).any():
            raise InputError(f"query {shown(self.query)}: a feature is infinite; accepted: finite numbers and NaN")
        wrong = [grade for grade in self.grades if not 0 <= grade <= MOST_GRADE]
        if wrong:
            raise InputError(f"query {shown(self.query)}: grade {wrong[0]}; accepted: 0 to {MOST_GRADE}")

    @property
    def has_relevant(self) -> bool:
        """Whether there is anything to learn from: a list without a relevant document orders nothing."""
        return any(self.grades)


@dataclass(frozen=True, slots=True)
class TreeParameters:
    """How the trees are grown: small and strongly regularised, for some hundred labelled lists.

    ``cutoff`` is the k of the nDCG@k that is stopped on; the gain of a grade is the grade itself, as trec_eval has
    it. ``rounds`` is the most trees, ``patience`` how many may bring nothing before stopping.
    """

    leaves: int = 7
    learning_rate: float = 0.05
    rows_per_leaf: int = 20
    l2: float = 10.0
    features_per_tree: float = 0.7
    rounds: int = 400
    patience: int = 40
    cutoff: int = 10
    seed: int = 1

    def lightgbm(self, increasing: Sequence[bool]) -> dict[str, Any]:
        """The same in LightGBM's words. One thread: the tables are small, and the result is the same everywhere."""
        return {
            "objective": "lambdarank",
            "metric": "ndcg",
            "eval_at": [self.cutoff],
            "label_gain": list(range(MOST_GRADE + 1)),
            "lambdarank_truncation_level": self.cutoff + 3,
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": self.rows_per_leaf,
            "lambda_l2": self.l2,
            "feature_fraction": self.features_per_tree,
            "monotone_constraints": [int(flag) for flag in increasing],
            "seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        }


@dataclass(frozen=True, slots=True)
class Trees:
    """A fitted ensemble over named features. Scores are for sorting one list, nothing else."""

    features: tuple[str, ...]
    text: str
    rounds: int
    _booster: Any = field(repr=False, compare=False)

    @classmethod
    def from_text(cls, text: str, features: Sequence[str]) -> Trees:
        """Read LightGBM's own text form, as it was written: a damaged one can abort the process in LightGBM's parser,
        which is why `rag.rerankers.ltr_artefact` compares its digest first.

        Raises:
            ArtefactError: LightGBM cannot read it, or it was grown on other features; says expected and found.
        """
        import lightgbm

        try:
            booster = lightgbm.Booster(model_str=text)
        except lightgbm.basic.LightGBMError as error:
            raise ArtefactError(f"LightGBM cannot read the trees: {error}") from None
        found = tuple(booster.feature_name())
        if found != tuple(features):
            raise ArtefactError(f"trees: expected features {', '.join(features)}; found {', '.join(found)}")
        return cls(found, text, booster.num_trees(), booster)

    def score(self, values: Floats) -> Floats:
        """Scores (D,) of the rows of ``values`` (D, F).

        Raises:
            InputError: another number of columns, or an infinite value.
        """
        if values.ndim != 2 or values.shape[1] != len(self.features):
            raise InputError(f"features of shape {values.shape}; expected (documents, {len(self.features)})")
        if np.isinf(values).any():
            raise InputError("a feature is infinite; accepted: finite numbers and NaN")
        scores = self._booster.predict(np.ascontiguousarray(values, dtype=np.float64), num_threads=1)
        return np.asarray(scores, dtype=np.float64)

    def importance(self) -> dict[str, float]:
        """What each feature brought, as a share of the whole gain, best first."""
        gains = np.asarray(self._booster.feature_importance("gain"), dtype=np.float64)
        shares = gains / (gains.sum() or 1.0)
        order = np.argsort(-shares, kind="stable")
        return {self.features[place]: float(shares[place]) for place in order}


def fit(
    lists: Sequence[LabelledFeatures],
    features: Sequence[str],
    increasing: Sequence[bool],
    parameters: TreeParameters,
    validation: Sequence[LabelledFeatures] = (),
) -> Trees:
    """Grow trees on labelled lists.

    With ``validation`` lists, growing stops where their nDCG has not risen for ``parameters.patience`` trees, and
    the best number of trees is kept; without, ``parameters.rounds`` are grown. Deterministic.

    Raises:
        InputError: no list; a list without anything relevant, or with another number of features: names its query.
    """
    import lightgbm

    names = list(features)
    training = _dataset(lists, names, "training")
    held = [_dataset(validation, names, "validation", training)] if validation else []
    booster = lightgbm.train(
        parameters.lightgbm(increasing),
        training,
        num_boost_round=parameters.rounds,
        valid_sets=held,
        callbacks=[lightgbm.early_stopping(parameters.patience, verbose=False)] if held else [],
    )
    best = booster.best_iteration if held else parameters.rounds
    return Trees.from_text(booster.model_to_string(num_iteration=best), names)


def _dataset(lists: Sequence[LabelledFeatures], names: list[str], what: str, reference: Any = None) -> Any:
    import lightgbm

    if not lists:
        raise InputError(f"{what}: no labelled list was given")
    for item in lists:
        if not item.has_relevant:
            raise InputError(f"{what}: query {shown(item.query)} has nothing relevant among its candidates")
        if item.values.shape[1] != len(names):
            raise InputError(
                f"{what}: query {shown(item.query)} has {item.values.shape[1]} features; expected {len(names)}"
            )
    return lightgbm.Dataset(
        np.concatenate([item.values for item in lists]),
        label=[grade for item in lists for grade in item.grades],
        group=[len(item.grades) for item in lists],
        feature_name=names,
        reference=reference,
    )
