"""The feature table of a candidate list: what learning to rank is given about each document.

A table is made of groups. Adding a signal is one function, one `FeatureGroup` and one entry of `FEATURE_GROUPS`;
training, artefacts and the reranker know a group by its name and its features by theirs. No feature depends on the
query alone: it could tell collections apart, and not the documents of a list. D documents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from rag.attention.types import Attender, AttentionSpec, Head
from rag.bridges import Wording, named_titles
from rag.errors import ConfigError, ModelOutputError, shown
from rag.rerankers.lexical import LexicalFeatures, lexical_features
from rag.standard_scores import Floats, standard_scores
from rag.types import Query, ScoredDocument
from rag.words import Tokeniser


class Feature(NamedTuple):
    """One column.

    ``increasing``: more of it may only raise a document's score (a monotone constraint). ``optional``: it is NaN where
    there is nothing to say; LightGBM learns what to do then. Any other NaN is an error.
    """

    name: str
    increasing: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a group may look at: the query, its D documents (all with text), and what H heads say of them.

    ``heads`` is late interaction through attention (`rag.attention.late_interaction`) of every head that the table is
    made with, z-scored within the list: (H, D); no rows where no group looks at them.
    """

    query: Query
    documents: tuple[ScoredDocument, ...]
    heads: Floats

    @classmethod
    def read(
        cls, query: Query, documents: Sequence[ScoredDocument], heads: Sequence[Head], attender: Attender
    ) -> Candidates:
        """Candidates with the scores of ``heads``; nothing is read where there are none."""
        spec = spec_of(heads)
        if spec is None:
            return cls(query, tuple(documents), np.empty((0, len(documents))))
        from rag.attention.late_interaction import best_token_scores

        answer = attender.attend(query, [item.document for item in documents], spec)
        return cls(query, tuple(documents), standard_scores(best_token_scores(answer, heads).double().numpy()))


def spec_of(heads: Sequence[Head]) -> AttentionSpec | None:
    """What a table with these heads reads with attention: every row of the query; None where there are none."""
    return AttentionSpec(tuple(heads), ("all",)) if heads else None


class FeatureGroup(NamedTuple):
    """Columns that are computed together: ``compute`` gives (D, number of features).

    ``reads_heads``: they are made of `Candidates.heads`.
    """

    name: str
    features: tuple[Feature, ...]
    compute: Callable[[Candidates], Floats]
    reads_heads: bool = False


@cache
def _tokeniser() -> Tokeniser:
    return Tokeniser()


def _lexical(candidates: Candidates) -> Floats:
    documents = [item.document for item in candidates.documents]
    return np.stack(lexical_features(candidates.query.text, documents, _tokeniser()), axis=1)


def _retrieval(candidates: Candidates) -> Floats:
    """What the members of the retriever said, from the traces; NaN where one did not have the document."""
    bm25, bm25_rank, dense, dense_rank = (
        _noted(candidates.documents, name) for name in ("bm25", "bm25_rank", "dense", "dense_rank")
    )
    columns = (standard_scores(bm25), 1 / bm25_rank, dense, standard_scores(dense), 1 / dense_rank)
    return np.stack(columns, axis=1)


def _incoming(candidates: Candidates) -> Floats:
    scores = standard_scores([item.score for item in candidates.documents])
    return np.stack((scores, 1 / np.array([item.rank for item in candidates.documents], dtype=np.float64)), axis=1)


def _bridges(candidates: Candidates) -> Floats:
    first = np.array([item.score for item in candidates.documents], dtype=np.float64)
    wording = Wording.of_documents(candidates.query, [item.document for item in candidates.documents])
    return named_titles(first, wording)[:, None]


def head_features(heads: Floats) -> Floats:
    """Mean of the heads' z-scores (H, D), itself z-scored, and their standard deviation: (D, 2)."""
    return np.stack((standard_scores(heads.mean(0)), heads.std(0)), axis=1)


def _noted(documents: Sequence[ScoredDocument], name: str) -> Floats:
    values = (item.trace.get(name) for item in documents)
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


_INCREASING = {"bm25_body", "bm25_title"}
_OPTIONAL = {"coverage", "coverage_title", "idf_overlap", "bigrams", "ordered_pairs", "phrase", "identifiers"}

FEATURE_GROUPS: tuple[FeatureGroup, ...] = (
    FeatureGroup(
        "lexical",
        tuple(Feature(name, name in _INCREASING, name in _OPTIONAL) for name in LexicalFeatures._fields),
        _lexical,
    ),
    FeatureGroup(
        "retrieval",
        tuple(Feature(name, True, True) for name in ("bm25", "bm25_rank", "dense_cosine", "dense", "dense_rank")),
        _retrieval,
    ),
    FeatureGroup("incoming", (Feature("incoming", True), Feature("incoming_rank", True)), _incoming),
    FeatureGroup("bridges", (Feature("named_titles", True),), _bridges),
    FeatureGroup(
        "attention",
        (Feature("late_interaction", True), Feature("late_interaction_spread")),
        lambda candidates: head_features(candidates.heads),
        reads_heads=True,
    ),
)
"""Every group, in the order of its columns.

``lexical``: see `LexicalFeatures`. ``retrieval``: score of each member of the retriever, z-scored over the documents of
the list that it found, 1 / its rank, and the raw cosine. ``incoming``: the score and 1 / the rank that the candidates
came with. ``bridges``: `rag.bridges.named_titles`, starting from that score. ``attention``: late interaction, averaged
over the heads, and how much they disagree.
"""


def choose_groups(names: Iterable[str] | None) -> tuple[FeatureGroup, ...]:
    """The named groups, in the table's own order; None for all of them.

    Raises:
        ConfigError: no name, or an unknown one; lists the known ones.
    """
    known = {group.name: group for group in FEATURE_GROUPS}
    if names is None:
        return FEATURE_GROUPS
    wanted = set(names)
    unknown = sorted(wanted - known.keys())
    if unknown or not wanted:
        given = ", ".join(map(shown, unknown)) or "none"
        raise ConfigError(f"feature groups: given {given}; known: {', '.join(known)}")
    return tuple(group for group in FEATURE_GROUPS if group.name in wanted)


def features_of(groups: Sequence[FeatureGroup]) -> tuple[Feature, ...]:
    """The columns of a table made of these groups."""
    return tuple(feature for group in groups for feature in group.features)


def read_heads(groups: Sequence[FeatureGroup]) -> bool:
    """Whether a table made of these groups needs attention."""
    return any(group.reads_heads for group in groups)


def feature_table(candidates: Candidates, groups: Sequence[FeatureGroup]) -> Floats:
    """The table (D, F) of the groups' columns side by side, checked.

    Raises:
        ModelOutputError: an infinite value, or NaN in a feature that always has one; names document and feature.
    """
    columns = np.concatenate([group.compute(candidates) for group in groups], axis=1)
    features = features_of(groups)
    bad = ~np.isfinite(columns)
    bad &= ~(np.isnan(columns) & np.array([feature.optional for feature in features]))
    if bad.any():
        row, column = (int(places[0]) for places in np.nonzero(bad))
        raise ModelOutputError(
            f"document {shown(candidates.documents[row].document.id)}: feature {features[column].name!r} is "
            f"{columns[row, column]}; accepted: finite numbers"
            + (" and NaN where there is nothing to say" if features[column].optional else "")
        )
    return columns
