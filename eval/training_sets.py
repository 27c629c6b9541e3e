"""Labelled collections to learn from: their queries' candidates as features, and what an artefact keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rag.artefacts import TrainedOn, query_digest
from rag.errors import InputError, shown
from rag.eval.collections import Collection
from rag.eval.ltr_data import CandidateList, Source, TableReader, Watch, collect

if TYPE_CHECKING:
    from rag.config import Settings
    from rag.eval.systems import Found

Collections = Mapping[str, tuple[str, Collection]]
"""Name of each collection to its split and itself."""


def load_collections(texts: Sequence[str], count: int | None, skip: int) -> dict[str, tuple[str, Collection]]:
    """Collections given as `Source` has them, with ``count`` queries each after the first ``skip``.

    Raises:
        InputError: two collections of one name; what a collection's files hold is not accepted.
    """
    loaded: dict[str, tuple[str, Collection]] = {}
    for source in map(Source.parse, texts):
        collection = source.load(count, skip)
        if collection.name in loaded:
            raise InputError(f"two collections are called {shown(collection.name)}; accepted: each once")
        loaded[collection.name] = (source.split, collection)
    return loaded


def collect_features(
    collections: Collections,
    reader: TableReader,
    settings: Settings,
    retriever: str,
    k: int,
    cache: Path | None,
    watch: Watch,
) -> dict[str, list[CandidateList]]:
    """The feature tables of each collection's queries over the ``k`` best of ``retriever``."""
    from rag import registry
    from rag.eval.systems import found
    from rag.resources import Resources

    parts = {"embedder": Resources(settings).embedder}
    stage = registry.build("retriever", retriever, {}, parts)

    def candidates(collection: Collection) -> Callable[[], Found]:
        return lambda: found(collection, stage, k)

    # What the retriever's settings are is part of what the features depend on: defaults change with versions.
    made_by = {"retriever": retriever, "method": getattr(stage, "method", None), "embedder": settings.embedder}
    return {
        name: collect(
            collection,
            candidates(collection),
            reader,
            description={"split": split, "k": k, **made_by},
            cache=cache and cache / f"{name}.{split}.features.jsonl",
            watch=watch,
        )
        for name, (split, collection) in collections.items()
    }


def training_data(collections: Collections) -> tuple[TrainedOn, ...]:
    """What an artefact keeps of the collections it was made from."""
    return tuple(
        TrainedOn(collection=name, split=split, queries=tuple(query_digest(query.text) for query in source.queries))
        for name, (split, source) in collections.items()
    )
