"""``rag heads``: find the heads of a model that carry relevance."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from rag.cli.options import Config, Model, load_settings
from rag.errors import InputError

heads_app = typer.Typer(no_args_is_help=True, help="Attention heads that carry relevance: detect, list.")


class Task(StrEnum):
    """What the heads are to rank."""

    document = "document"
    sentence = "sentence"


@heads_app.command()
def detect(
    sources: Annotated[
        list[Path], typer.Argument(help="BEIR folders (task document) or qa.jsonl files (task sentence) to learn from.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the head list goes (JSON).")],
    task: Annotated[Task, typer.Option(help="What the heads are to rank.")] = Task.document,
    split: Annotated[
        str, typer.Option(help="Which qrels of a BEIR folder to learn from: not one you judge on.")
    ] = "train",
    queries: Annotated[str | None, typer.Option(help="File of queries inside a BEIR folder.")] = None,
    model: Model = None,
    config: Config = None,
    count: Annotated[int, typer.Option(min=1, help="Queries of each source, drawn at random (seed 1).")] = 80,
    candidates: Annotated[int, typer.Option(min=2, help="BM25 candidates per query (task document).")] = 10,
    keep: Annotated[int, typer.Option(min=1, help="How many heads to keep.")] = 6,
    layers: Annotated[int | None, typer.Option(min=1, help="Look at the lowest layers only.")] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Rank every head by the nDCG@10 that it gives alone, and write the best ones as a head list.

    Queries without anything relevant among their candidates are passed over: no head could show anything.
    """
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from rag.attention.detection import detect as find
    from rag.attention.heads import HeadList
    from rag.eval.labelled import SCORERS, document_lists, sentence_lists
    from rag.resources import load_engine

    if task is Task.document:
        found_in = [list(document_lists(path, split, queries, candidates, count)) for path in sources]
    else:
        found_in = [list(sentence_lists(path, count)) for path in sources]
    lists = [item for of in found_in for item in of]
    if not lists:
        raise InputError(f"{', '.join(map(str, sources))}: no query has anything relevant among its candidates")
    settings = load_settings(config, model=model)
    engine = load_engine(settings)
    console = Console(stderr=True)
    watched: Any = track(lists, "reading", console=console, disable=not progress)
    scored = find(engine, watched, SCORERS[task.value], layers=layers)
    best = list(scored.items())[:keep]
    what = {
        Task.document: f"top {candidates} of BM25 on {split}",
        Task.sentence: "sentences of the given documents, label: supporting sentence",
    }[task]
    counts = ", ".join(f"{_name(path)}: {len(of)} queries" for path, of in zip(sources, found_in, strict=True))
    HeadList(
        model=settings.model,
        fingerprint=engine.decoder.fingerprint,
        template=engine.template.digest(),
        layout=engine.layout,
        task=task.value,
        method=f"nDCG@10 of each head alone, calibrated; layers 0 to {(layers or engine.layers) - 1}",
        data=f"{counts}; {what}",
        heads=tuple(head for head, _ in best),
        scores=tuple(round(score, 4) for _, score in best),
    ).save(output)
    table = Table(
        "head", "nDCG@10", title=f"{task.value} heads of {settings.model}, {len(lists)} queries", title_justify="left"
    )
    for head, score in best:
        table.add_row(str(head), f"{score:.4f}")
    console.print(table)
    typer.echo(str(output))


@heads_app.command("list")
def list_heads() -> None:
    """Show the head lists that ship with the package."""
    from rich.console import Console
    from rich.table import Table

    from rag.attention.heads import shipped

    table = Table("model", "task", "heads (layer-head)", "found on")
    for item in shipped():
        table.add_row(item.model, item.task, " ".join(map(str, item.heads)), item.data)
    Console().print(table)


def _name(path: Path) -> str:
    return path.name if path.is_dir() else path.parent.name
