"""``rag index``: read a corpus once and keep what was read, so that queries over it start warm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli.options import Config, Device, Model, load_settings
from rag.errors import ArtefactError, InputError

if TYPE_CHECKING:
    from rag.attention.precompute import PrecomputeReport
    from rag.config import Settings
    from rag.types import Document


def index(
    files: Annotated[
        list[str] | None,
        typer.Argument(help="JSONL, TXT or Markdown files, folders of them, - for JSONL on stdin.", show_default=False),
    ] = None,
    blocks: Annotated[
        Path | None, typer.Option(help="Folder of the block store; default: engine.store.", show_default=False)
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(help="Layers to keep; default: those the model's shipped heads read.", show_default=False),
    ] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Check every file and drop the damaged ones.")] = False,
    verify: Annotated[
        Path | None, typer.Option(help="Only check the files of this block store.", show_default=False)
    ] = None,
    compact: Annotated[
        Path | None,
        typer.Option(help="Only drop what this block store holds with more layers elsewhere.", show_default=False),
    ] = None,
    model: Model = None,
    device: Device = None,
    config: Config = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Read documents with the attention model and keep the result in a folder (see the setting engine.store).

    A run that was stopped goes on where it was when it is started again; what is there already is skipped.
    """
    if compact is not None:
        if files or blocks is not None or verify is not None or rebuild:
            raise InputError("--compact FOLDER only compacts that store; accepted beside it: nothing")
        _compact(compact)
        return
    if verify is not None:
        if files or blocks is not None:
            raise InputError("--verify FOLDER only checks that store; accepted beside it: --rebuild")
        _verify(verify, rebuild)
        return
    if not files:
        raise InputError("no files given; accepted: files and folders to index, or --verify FOLDER")
    settings = load_settings(config, model=model, device=device)
    folder = blocks or settings.engine.store
    if folder is None:
        raise InputError("no block store given; accepted: --blocks FOLDER, or the setting engine.store")
    from rag.checks import check_document_sizes
    from rag.corpus import read_documents

    documents = read_documents(files)
    # The number of documents is no limit here: an index may serve many requests, each with some of them.
    check_document_sizes(documents, settings.limits)
    try:
        report = _precompute(settings, documents, folder, depth, rebuild, progress)
    except KeyboardInterrupt:
        typer.echo(f"stopped; {folder} is whole as far as it goes, the same command goes on from there", err=True)
        raise
    typer.echo(
        f"{report.documents} documents: {report.blocks} blocks ({report.tokens} tokens) stored in "
        f"{report.seconds:.1f} s, {report.bytes / (1 << 20):.1f} MiB; {report.skipped} skipped, there already"
    )


def _precompute(
    settings: Settings, documents: list[Document], folder: Path, depth: int | None, rebuild: bool, progress: bool
) -> PrecomputeReport:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from rag.resources import load_engine

    console = Console(stderr=True)
    with console.status("loading the model"):
        # The store of the settings may not be there yet: it is what is made here.
        engine = load_engine(settings.model_copy(update={"engine": settings.engine.model_copy(update={"store": None})}))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not (progress and console.is_terminal)) as bar:
        task = bar.add_task("documents", total=len(documents))
        return engine.precompute(
            documents,
            folder,
            depth=depth,
            rebuild=rebuild,
            progress=lambda done, _: bar.update(task, completed=done),
        )


def _compact(folder: Path) -> None:
    from rag.attention.disk import BlockStore

    store = BlockStore(folder)
    freed = store.compact()
    mib = 1 << 20
    typer.echo(f"{folder}: {freed / mib:.1f} MiB freed; {len(store)} blocks in {store.nbytes / mib:.1f} MiB")


def _verify(folder: Path, rebuild: bool) -> None:
    """Check a store, saying which files are damaged; without ``rebuild`` they make it fail."""
    from rag.attention.disk import BlockStore

    store = BlockStore(folder)
    damaged = store.rebuild() if rebuild else store.verify()
    if damaged and not rebuild:
        raise ArtefactError(f"{'; '.join(map(str, damaged.values()))} (--rebuild drops {len(damaged)} of the files)")
    for error in damaged.values():
        typer.echo(f"dropped: {error}")
    typer.echo(f"{folder}: {len(store)} blocks in {store.nbytes / (1 << 20):.1f} MiB are whole")
