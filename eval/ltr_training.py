"""Training LambdaMART on labelled collections, with the figures that say what it is worth elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rag.eval.ltr_data import CandidateList
from rag.eval.ltr_folds import Scored, column, cross_validate, leave_one_out, train, values
from rag.eval.significance import Interval, bootstrap_interval, randomisation_test
from rag.rerankers.ltr_features import Feature
from rag.rerankers.ltr_trees import TreeParameters, Trees

COMPARED = ("bm25", "dense", "attention")
"""Single features that are shown as rankings of their own, where the table has them."""


@dataclass(frozen=True, slots=True)
class FoldRow:
    """Mean nDCG@10 of one fold's queries: as they came, and by trees that did not see them."""

    fold: int
    queries: int
    incoming: float
    lambdamart: float


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """Mean nDCG@10 over a collection's queries.

    ``single`` is of the list sorted by one feature. ``cross_validated`` is of trees fitted to the other folds of all
    the collections, ``left_out`` of trees fitted to the other collections alone (None: there are none); the p values
    are of the paired randomisation test against ``incoming``. ``without_relevant`` names the queries whose candidates
    hold nothing relevant: they count as 0 everywhere, and nothing is learned from them.
    """

    collection: str
    queries: int
    single: Mapping[str, float]
    incoming: float
    cross_validated: float
    cross_validated_p: float
    left_out: float | None
    left_out_p: float | None
    without_relevant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Training:
    """Trees fitted to all the lists, and how such trees rank lists they did not see."""

    trees: Trees
    folds: tuple[FoldRow, ...]
    collections: tuple[CollectionRow, ...]

    def figures(self) -> dict[str, float]:
        """The figures that go into the model's file."""
        of = self.collections
        figures = {f"{row.collection} incoming": row.incoming for row in of}
        figures |= {f"{row.collection} cross-validated": row.cross_validated for row in of}
        return figures | {f"{row.collection} left out": row.left_out for row in of if row.left_out is not None}


def train_and_judge(
    collections: Mapping[str, Sequence[CandidateList]],
    features: Sequence[Feature],
    parameters: TreeParameters,
    folds: int,
) -> Training:
    """Cross-validate over all the queries, leave out each collection in turn, and fit the final trees to everything.

    The final model has as many trees as the folds' models had on average when they stopped.

    Raises:
        InputError: see `rag.eval.ltr_folds.cross_validate`.
    """
    lists = [item for of in collections.values() for item in of]
    validated = cross_validate(lists, features, parameters, folds)
    incoming, after = values(lists, None), values(lists, validated.scores)
    left_out = leave_one_out(collections, features, parameters, folds) if len(collections) > 1 else {}
    return Training(
        train(lists, features, parameters, validated.typical_rounds),
        tuple(
            FoldRow(fold, len(keys), fmean(incoming[key] for key in keys), fmean(after[key] for key in keys))
            for fold in range(folds)
            for keys in [[key for key, place in validated.folds.items() if place == fold]]
        ),
        tuple(_row(name, of, features, validated.scores, left_out.get(name)) for name, of in collections.items()),
    )


def _row(
    name: str, lists: Sequence[CandidateList], features: Sequence[Feature], validated: Scored, left_out: Scored | None
) -> CollectionRow:
    before = values(lists, None)
    names = {feature.name for feature in features}
    after = values(lists, validated)
    elsewhere = None if left_out is None else values(lists, left_out)
    return CollectionRow(
        collection=name,
        queries=len(lists),
        single={one: fmean(values(lists, column(lists, features, one)).values()) for one in COMPARED if one in names},
        incoming=fmean(before.values()),
        cross_validated=fmean(after.values()),
        cross_validated_p=_p(after, before),
        left_out=None if elsewhere is None else fmean(elsewhere.values()),
        left_out_p=None if elsewhere is None else _p(elsewhere, before),
        without_relevant=tuple(item.query for item in lists if not item.documents or not item.labelled().has_relevant),
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """A finished model on a collection it has not seen: mean nDCG@10 before and after, and the difference."""

    collection: str
    queries: int
    incoming: float
    lambdamart: float
    interval: Interval
    p: float


def judge(name: str, lists: Sequence[CandidateList], scores: Scored) -> Judged:
    """Compare scored lists with the lists as they came; see `Judged`."""
    before, after = values(lists, None), values(lists, scores)
    differences = [after[key] - before[key] for key in before]
    return Judged(
        name,
        len(lists),
        fmean(before.values()),
        fmean(after.values()),
        bootstrap_interval(differences),
        _p(after, before),
    )


def _p(after: Mapping[str, float], before: Mapping[str, float]) -> float:
    return randomisation_test([after[key] for key in before], list(before.values()))
