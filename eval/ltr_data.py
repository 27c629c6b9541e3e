"""Feature tables of a collection's candidates, kept on disk as they come."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from rag.attention.engine import AttentionEngine
from rag.attention.types import Head
from rag.errors import InputError, shown
from rag.eval.collections import Collection, load_beir
from rag.eval.head_reader import read_with
from rag.eval.probe_fit import Column
from rag.eval.record_log import record_log
from rag.eval.systems import Found
from rag.rerankers.ltr_features import FEATURE_GROUPS, Candidates, feature_table, features_of
from rag.rerankers.ltr_trees import LabelledFeatures
from rag.standard_scores import Floats
from rag.types import Query, ScoredDocument

Watch: TypeAlias = Callable[[Sequence[Any], str], Iterable[Any]]
"""Goes through a sequence, showing how far it is: ``watch(items, description)``."""

STATISTIC = "best-token"
"""What a column of a head holds: its late interaction, z-scored within the list."""

_PLAIN = tuple(group for group in FEATURE_GROUPS if not group.reads_heads)


@dataclass(frozen=True, slots=True)
class Source:
    """A collection on the command line, ``FOLDER[:SPLIT[:QUERIES]]``: judgements of ``train`` if no split is named."""

    path: Path
    split: str = "train"
    queries: str | None = None

    @classmethod
    def parse(cls, text: str) -> Source:
        """Read one; a folder whose own name holds a colon is taken whole.

        Raises:
            InputError: more parts than three, or an empty one.
        """
        if Path(text).exists():
            return cls(Path(text))
        parts = text.split(":")
        if not all(parts) or len(parts) > 3:
            raise InputError(f"collection {shown(text)}; accepted: FOLDER, FOLDER:SPLIT or FOLDER:SPLIT:QUERIES")
        return cls(Path(parts[0]), *parts[1:])

    def load(self, count: int | None = None, skip: int = 0) -> Collection:
        """The collection, with ``count`` of its queries (None: all) in the fixed random order of their ids' digests.

        ``skip`` passes over the first ones, which were used for something else.

        Raises:
            InputError: no query is left.
        """
        whole = load_beir(self.path, self.split, queries=self.queries)
        queries = sorted(whole.queries, key=lambda query: _digest([query.id]))[skip:][:count]
        if not queries:
            raise InputError(f"{self.path}: {len(whole.queries)} queries, of which the first {skip} are skipped")
        return Collection(
            name=whole.name,
            documents=whole.documents,
            queries=tuple(queries),
            qrels={query.id: whole.qrels[query.id] for query in queries},
            missing_documents=whole.missing_documents,
            missing_queries=whole.missing_queries,
        )


@dataclass(frozen=True, slots=True)
class CandidateList:
    """One query's candidates in the order they came: ids, features (D, F) and judgements (all of the query's)."""

    collection: str
    query: str
    documents: tuple[str, ...]
    values: Floats
    judgements: Mapping[str, int]

    @property
    def key(self) -> str:
        """A name of the query that is unique among collections."""
        return f"{self.collection}/{self.query}"

    @property
    def has_relevant(self) -> bool:
        """Whether there is anything to learn from."""
        return any(self.judgements.get(name, 0) > 0 for name in self.documents)

    def labelled(self) -> LabelledFeatures:
        """For learning; a grade below 0 counts as not relevant, as it does when measured."""
        grades = tuple(max(0, self.judgements.get(name, 0)) for name in self.documents)
        return LabelledFeatures(self.key, self.values, grades)


class TableReader(Protocol):
    """Turns a candidate list into numbers."""

    def header(self) -> dict[str, Any]:
        """What the values depend on, as JSON values; among it ``features``, the names of the columns."""
        ...

    def table(self, query: Query, given: Sequence[ScoredDocument]) -> Floats:
        """Features (D, F) of the candidates, all with text."""
        ...


@dataclass(frozen=True, slots=True)
class Reader:
    """Every feature that needs no attention, and a column for each of ``heads``: what trees are given is chosen later.

    Nothing is read with attention where there are no heads.
    """

    engine: AttentionEngine
    heads: tuple[Head, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """What the columns of a table are."""
        return (
            *(Column(feature.name) for feature in features_of(_PLAIN)),
            *(Column(STATISTIC, head) for head in self.heads),
        )

    def header(self) -> dict[str, Any]:
        """What the values depend on."""
        read = {"engine": read_with(self.engine)} if self.heads else {}
        return {"features": [str(column) for column in self.columns], **read}

    def table(self, query: Query, given: Sequence[ScoredDocument]) -> Floats:
        """Values (D, F) of the candidates, all with text."""
        candidates = Candidates.read(query, given, self.heads, self.engine)
        return np.concatenate([feature_table(candidates, _PLAIN), candidates.heads.T], axis=1)


def collect(
    source: Collection,
    found: Callable[[], Found],
    reader: TableReader,
    *,
    description: Mapping[str, Any],
    cache: Path | None = None,
    watch: Watch = lambda items, _: items,
) -> list[CandidateList]:
    """The feature table of every query's candidates.

    Candidates without text are left out: there is nothing of them to read, and a reranker puts them last; a query
    whose candidates all are has an empty table. With ``cache``, a JSONL file, each table is written as soon as it is
    there, and one that is there is not made again; where all are there, ``found`` is not called. ``description`` says
    what the candidates depend on.

    Raises:
        ArtefactError: ``cache`` belongs to other data, features or another engine, or is damaged.
    """
    header = {"collection": source.name, "data": corpus_digest(source), **description, **reader.header()}
    shape = (-1, len(header["features"]))
    with record_log(cache, header) as (records, write):
        done = {record["query"]: record for record in records}
        missing = [query for query in source.queries if query.id not in done]
        lists = found().lists if missing else {}
        for query in watch(missing, f"features of {source.name}"):
            given = [item for item in lists[query.id] if not item.document.is_empty]
            rows = _plain(reader.table(query, given)) if given else []
            done[query.id] = {"query": query.id, "documents": [item.document.id for item in given], "values": rows}
            write(done[query.id])
    return [
        CandidateList(
            source.name,
            query.id,
            tuple(done[query.id]["documents"]),
            np.array(done[query.id]["values"], dtype=np.float64).reshape(shape),
            source.qrels[query.id],
        )
        for query in source.queries
    ]


def _plain(values: Floats) -> list[list[float | None]]:
    """Rows of numbers as JSON has them: a missing value is null."""
    return [[None if math.isnan(value) else value for value in row] for row in values.tolist()]


def corpus_digest(source: Collection) -> str:
    """A digest of a collection's documents: what was made of one corpus is not carried on with another of its name."""
    return _digest(part for item in source.documents for part in (item.id, item.title, item.text))


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
