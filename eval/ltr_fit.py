"""From the tables of candidate lists to trees: which heads and columns they are given, chosen on what they learn from.

The tables hold every feature and every head that was read (`rag.eval.ltr_data.Reader`), so that heads are never chosen
on lists that are judged. D documents of a list, F columns of its table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rag.attention.types import Head
from rag.errors import InputError
from rag.eval.ltr_data import STATISTIC, CandidateList
from rag.eval.probe_fit import Column, LabelledItems, strongest
from rag.rerankers.ltr_features import Feature, FeatureGroup, features_of, head_features, read_heads
from rag.rerankers.ltr_trees import LabelledFeatures, TreeParameters, Trees, fit
from rag.standard_scores import Floats

KEEP = 8
"""Heads looked at, chosen with collections left out in turn (HotpotQA train, MuSiQue train); 12 is within the noise."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How trees are fitted to lists whose tables have these ``columns``: to which groups of features, and how grown.

    Of the heads among the columns, the ``keep`` that rank best alone are looked at.
    """

    columns: tuple[Column, ...]
    groups: tuple[FeatureGroup, ...]
    parameters: TreeParameters
    keep: int = KEEP

    @property
    def features(self) -> tuple[Feature, ...]:
        """What the trees are given."""
        return features_of(self.groups)

    def without(self, group: FeatureGroup) -> Plan:
        """The same without a group."""
        return replace(self, groups=tuple(item for item in self.groups if item.name != group.name))

    def choose_heads(self, lists: Sequence[LabelledFeatures]) -> tuple[Head, ...]:
        """The heads that rank these lists best alone, ascending; none where no group looks at any."""
        places = {place: column.head for place, column in enumerate(self.columns) if column.head is not None}
        if not read_heads(self.groups):
            return ()
        items = [LabelledItems(of.query, of.values, np.array(of.grades, dtype=np.float64)) for of in lists]
        return tuple(sorted(places[place] for place in strongest(items, list(places), self.keep)))

    def table(self, values: Floats, heads: Sequence[Head]) -> Floats:
        """Of a table (D, F) what the trees are given: (D, number of features)."""
        place = {column: number for number, column in enumerate(self.columns)}
        plain = [place[Column(item.name)] for group in self.groups if not group.reads_heads for item in group.features]
        if not heads:
            return values[:, plain]
        read = values[:, [place[Column(STATISTIC, head)] for head in heads]]
        return np.concatenate([values[:, plain], head_features(read.T)], axis=1)

    def fit(
        self, lists: Sequence[CandidateList], stop: Sequence[CandidateList] = (), rounds: int | None = None
    ) -> Ranker:
        """Choose heads and grow trees: ``rounds`` of them, or until the lists ``stop`` gain nothing more.

        Raises:
            InputError: no list holds anything relevant; names the queries.
        """
        learned_from = learnable(lists)
        heads = self.choose_heads(learned_from)

        def given(lists: Sequence[LabelledFeatures]) -> list[LabelledFeatures]:
            return [replace(item, values=self.table(item.values, heads)) for item in lists]

        trees = fit(
            given(learned_from),
            [feature.name for feature in self.features],
            [feature.increasing for feature in self.features],
            self.parameters if rounds is None else replace(self.parameters, rounds=rounds),
            given(learnable(stop)) if stop else (),
        )
        return Ranker(self, heads, trees)


@dataclass(frozen=True, slots=True)
class Ranker:
    """Fitted trees and the heads that they look at."""

    plan: Plan
    heads: tuple[Head, ...]
    trees: Trees

    def __call__(self, lists: Sequence[CandidateList]) -> dict[str, Floats]:
        """The scores of each list's candidates, by its key."""
        return {
            item.key: self.trees.score(self.plan.table(item.values, self.heads)) if item.documents else np.empty(0)
            for item in lists
        }


def learnable(lists: Sequence[CandidateList]) -> list[LabelledFeatures]:
    """The lists that hold something relevant, as training data.

    Raises:
        InputError: none does; names the queries.
    """
    kept = [item.labelled() for item in lists if item.has_relevant]
    if not kept:
        names = ", ".join(item.key for item in lists[:10])
        more = f" and {len(lists) - 10} more" if len(lists) > 10 else ""
        raise InputError(f"no query has anything relevant among its candidates: {names or 'none given'}{more}")
    return kept
