"""What the commands of ``rag ltr`` share: collections and their candidates' features, progress, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.errors import InputError, shown

if TYPE_CHECKING:
    from rag.config import Settings
    from rag.eval.collections import Collection
    from rag.eval.ltr_data import CandidateList, TableReader, Watch
    from rag.eval.systems import Found

Collections = Annotated[
    list[str], typer.Argument(help="BEIR folders as FOLDER[:SPLIT[:QUERIES FILE]]; split train by default.")
]
Count = Annotated[int | None, typer.Option(min=1, help="Queries of each collection, in a fixed random order.")]
Skip = Annotated[int, typer.Option(min=0, help="Pass over the first queries of that order: those used elsewhere.")]
Folds = Annotated[int, typer.Option(min=3, help="Folds of queries for cross-validation.")]
Cache = Annotated[Path | None, typer.Option(help="Folder that keeps what was computed, to resume from.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures here.")]
Progress = Annotated[bool, typer.Option(help="Show a progress bar.")]


def load_collections(texts: Sequence[str], count: int | None, skip: int) -> dict[str, tuple[str, Collection]]:
    """Name of each collection to its split and itself.

    Raises:
        InputError: two collections of one name; what a collection's files hold is not accepted.
    """
    from rag.eval.ltr_data import Source

    loaded: dict[str, tuple[str, Collection]] = {}
    for source in map(Source.parse, texts):
        collection = source.load(count, skip)
        if collection.name in loaded:
            raise InputError(f"two collections are called {shown(collection.name)}; accepted: each once")
        for warning in collection.warnings:
            typer.echo(f"warning: {warning}", err=True)
        loaded[collection.name] = (source.split, collection)
    return loaded


def collect_features(
    collections: Mapping[str, tuple[str, Collection]],
    reader: TableReader,
    settings: Settings,
    retriever: str,
    k: int,
    cache: Path | None,
    progress: bool,
) -> dict[str, list[CandidateList]]:
    """The feature tables of each collection's queries over the ``k`` best of ``retriever``."""
    from rag import registry
    from rag.eval.ltr_data import collect
    from rag.eval.systems import found
    from rag.resources import Resources

    parts = {"embedder": Resources(settings).embedder}

    def candidates(collection: Collection) -> Callable[[], Found]:
        return lambda: found(collection, registry.build("retriever", retriever, {}, parts), k)

    return {
        name: collect(
            collection,
            candidates(collection),
            reader,
            description={"split": split, "retriever": retriever, "k": k, "embedder": settings.embedder},
            cache=cache and cache / f"{name}.{split}.features.jsonl",
            watch=watching(progress),
        )
        for name, (split, collection) in collections.items()
    }


def watching(visible: bool) -> Watch:
    """A progress bar on standard error around a sequence."""
    from rich.console import Console
    from rich.progress import track

    def watch(items: Sequence[Any], description: str) -> Iterable[Any]:
        return track(items, description, console=Console(stderr=True), disable=not visible)

    return watch


def versions() -> dict[str, str]:
    """Versions of what a learned artefact depends on."""
    from importlib.metadata import version

    from rag import __version__

    return {"rag": __version__, **{name: version(name) for name in ("lightgbm", "scikit-learn")}}


def training_data(collections: Mapping[str, tuple[str, Collection]]) -> tuple[Any, ...]:
    """What an artefact keeps of the collections it was made from."""
    from rag.rerankers.ltr_artefact import TrainedOn, query_digest

    return tuple(
        TrainedOn(collection=name, split=split, queries=tuple(query_digest(query.text) for query in source.queries))
        for name, (split, source) in collections.items()
    )


def cell(value: float | None, form: str = ".4f") -> str:
    """A number of a table; a dash where there is none."""
    return "-" if value is None else format(value, form)
