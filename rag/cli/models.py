"""``rag models``: what can be loaded, and what is already on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

models_app = typer.Typer(no_args_is_help=True, help="Models: list, fetch.")


@models_app.command("list")
def list_models() -> None:
    """Show the models of the catalogue and those in the store."""
    from rich.console import Console
    from rich.table import Table

    from rag.models.catalog import DEFAULT_EMBEDDER, DEFAULT_LLM
    from rag.models.store import ModelStore

    store = ModelStore()
    installed, damaged = store.installed(), store.damaged()
    table = Table("name", "kind", "licence", "here", "about", title=f"models in {store.root}", title_justify="left")
    for name, entry in store.entries.items():
        default = " (default)" if name in {DEFAULT_LLM, DEFAULT_EMBEDDER} else ""
        present = f"{installed[name].total_bytes >> 20} MiB" if name in installed else "no"
        here = "damaged" if name in damaged else present
        table.add_row(name + default, entry.kind, entry.licence, here, entry.about)
    for name in sorted(installed.keys() - store.entries.keys()):
        manifest = installed[name]
        table.add_row(name, "llm", manifest.licence, f"{manifest.total_bytes >> 20} MiB", ", ".join(manifest.source))
    for name in sorted(damaged.keys() - store.entries.keys()):
        table.add_row(name, "", "", "damaged", "")
    Console().print(table)
    for reason in damaged.values():
        typer.echo(reason, err=True)


@models_app.command()
def fetch(
    names: Annotated[list[str] | None, typer.Argument(help="Catalogue names; none: the two defaults.")] = None,
    force: Annotated[bool, typer.Option(help="Make it anew where it is there already.")] = False,
) -> None:
    """Bring models to this machine."""
    from rag.models.catalog import DEFAULT_EMBEDDER, DEFAULT_LLM
    from rag.models.store import ModelStore

    store = ModelStore()
    for name in names or (DEFAULT_LLM, DEFAULT_EMBEDDER):
        folder = store.fetch(name, force=force, progress=lambda line: typer.echo(line, err=True))
        typer.echo(f"{name}\t{folder}")
