"""What the commands that learn from labelled collections share: their options, and how figures are shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rag.eval.collections import Collection

Collections = Annotated[
    list[str], typer.Argument(help="BEIR folders as FOLDER[:SPLIT[:QUERIES FILE]]; split train by default.")
]
Count = Annotated[int | None, typer.Option(min=1, help="Queries of each collection, in a fixed random order.")]
Skip = Annotated[int, typer.Option(min=0, help="Pass over the first queries of that order: those used elsewhere.")]
Folds = Annotated[int, typer.Option(min=3, help="Folds of queries for cross-validation.")]
Cache = Annotated[Path | None, typer.Option(help="Folder that keeps what was computed, to resume from.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures here.")]
Progress = Annotated[bool, typer.Option(help="Show a progress bar.")]


def loaded(texts: Sequence[str], count: int | None, skip: int) -> dict[str, tuple[str, Collection]]:
    """See `rag.eval.training_sets.load_collections`; what is odd about a collection is said on standard error."""
    from rag.eval.training_sets import load_collections

    collections = load_collections(texts, count, skip)
    for _, collection in collections.values():
        for warning in collection.warnings:
            typer.echo(f"warning: {warning}", err=True)
    return collections


def versions() -> dict[str, str]:
    """Versions of what a learned artefact depends on."""
    from importlib.metadata import version

    from rag import __version__

    return {"rag": __version__, **{name: version(name) for name in ("lightgbm", "scikit-learn")}}


def cell(value: float | None, form: str = ".4f") -> str:
    """A number of a table; a dash where there is none."""
    return "-" if value is None else format(value, form)
