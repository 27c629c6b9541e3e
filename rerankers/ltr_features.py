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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rag.attention.types import AttentionSpec, Head
from rag.errors import ConfigError, ModelOutputError, shown
from rag.rerankers.lexical import LexicalFeatures, lexical_features
from rag.standard_scores import standard_scores
from rag.types import Query, ScoredDocument
from rag.words import Tokeniser

if TYPE_CHECKING:
    from rag.attention.types import AttentionMap

Floats = npt.NDArray[np.float64]


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
    """What a group may look at: the query, its documents (all with text), and attention for a spec it has announced.

    ``heads`` are those that the table was made, or its model trained, with.
    """

    query: Query
    documents: tuple[ScoredDocument, ...]
    heads: tuple[Head, ...]
    attend: Callable[[AttentionSpec], AttentionMap]


class FeatureGroup(NamedTuple):
    """Columns that are computed together: ``compute`` gives (D, number of features).

    ``spec`` says what the group reads with attention, given the heads; None where it reads nothing.
    """

    name: str
    features: tuple[Feature, ...]
    compute: Callable[[Candidates], Floats]
    spec: Callable[[tuple[Head, ...]], AttentionSpec] | None = None


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


def _attention(candidates: Candidates) -> Floats:
    """The heads' mean, each head z-scored within the list, as the reranker ``heads`` has it; and their disagreement."""
    from rag.rerankers.scores import head_scores, zscore

    answer = candidates.attend(_document_heads(candidates.heads))
    heads = zscore(head_scores(answer, candidates.heads))
    return np.stack((zscore(heads.mean(0)).numpy(), heads.std(0, correction=0).numpy()), axis=1)


def _document_heads(heads: tuple[Head, ...]) -> AttentionSpec:
    return AttentionSpec(heads, calibrated=True)


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
    FeatureGroup("attention", (Feature("attention", True), Feature("attention_spread")), _attention, _document_heads),
)
"""Every group, in the order of its columns.

``lexical``: see `LexicalFeatures`. ``retrieval``: score of each member of the retriever, z-scored over the documents of
the list that it found, 1 / its rank, and the raw cosine. ``incoming``: the score and 1 / the rank that the candidates
came with. ``attention``: calibrated attention of the document heads.
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


def specs_of(groups: Sequence[FeatureGroup], heads: tuple[Head, ...]) -> tuple[AttentionSpec, ...]:
    """What the groups read with attention; empty where none of them does."""
    return tuple(group.spec(heads) for group in groups if group.spec is not None)


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
