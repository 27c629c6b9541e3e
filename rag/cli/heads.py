"""``rag heads``: find the heads of a model that carry relevance."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli.options import Config, Model, load_settings
from rag.errors import InputError

if TYPE_CHECKING:
    from rag.attention.detection import Criterion

heads_app = typer.Typer(no_args_is_help=True, help="Attention heads that carry relevance: detect, list.")


class Task(StrEnum):
    """What the heads are to rank."""

    document = "document"
    sentence = "sentence"


class Method(StrEnum):
    """How a head's scores are judged; see `rag.attention.detection.CRITERIA`."""

    ndcg = "ndcg"
    qr = "qr"
    contrastive = "contrastive"


@heads_app.command()
def detect(
    sources: Annotated[
        list[Path], typer.Argument(help="BEIR folders (task document) or qa.jsonl files (task sentence) to learn from.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the head list goes (JSON).")],
    task: Annotated[Task, typer.Option(help="What the heads are to rank.")] = Task.document,
    method: Annotated[
        Method,
        typer.Option(
            help="ndcg: nDCG@10 of the ranking a head alone gives; qr: its scores of what is relevant, summed; "
            "contrastive: how far it lifts the relevant over the rest."
        ),
    ] = Method.ndcg,
    temperature: Annotated[
        float | None, typer.Option(help="Of the contrastive method, above 0.", show_default="0.5")
    ] = None,
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
    """Rank every head by how well its attention alone fits the labels, and write the best ones as a head list.

    Queries without anything relevant among their candidates are passed over: no head could show anything.
    """
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from rag.attention.detection import detect as find
    from rag.attention.heads import HeadList
    from rag.eval.labelled import SCORERS, document_lists, sentence_lists
    from rag.resources import load_engine

    criterion, name = _criterion(method, temperature)
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
    scored = find(engine, watched, SCORERS[task.value], criterion=criterion, layers=layers)
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
        method=f"{name} of each head alone, calibrated; layers 0 to {(layers or engine.layers) - 1}",
        data=f"{counts}; {what}",
        heads=tuple(head for head, _ in best),
        scores=tuple(float(f"{score:.4g}") for _, score in best),
    ).save(output)
    table = Table(
        "head", name, title=f"{task.value} heads of {settings.model}, {len(lists)} queries", title_justify="left"
    )
    for head, score in best:
        table.add_row(str(head), f"{score:.4g}")
    console.print(table)
    typer.echo(str(output))


def _criterion(method: Method, temperature: float | None) -> tuple[Criterion, str]:
    """The criterion, and its name with what was set.

    Raises:
        InputError: a temperature of 0 or less, or for a method that has none.
    """
    from rag.attention.detection import CRITERIA, DEFAULT_TEMPERATURE, contrastive

    if method is Method.contrastive:
        used = DEFAULT_TEMPERATURE if temperature is None else temperature
        if not used > 0:
            raise InputError(f"--temperature must be above 0, given {used}")
        return partial(contrastive, temperature=used), f"contrastive score (temperature {used:g})"
    if temperature is not None:
        raise InputError(f"--temperature belongs to --method contrastive, given with {method.value}")
    return CRITERIA[method.value], {Method.ndcg: "nDCG@10", Method.qr: "QR score"}[method]


@heads_app.command("list")
def list_heads() -> None:
    """Show the head lists that come with the package: found here, and published by others."""
    from rich.console import Console
    from rich.table import Table

    from rag.attention.heads import shipped
    from rag.attention.published import PREFIX, published

    console = Console()
    own = Table("model", "task", "heads (layer-head)", "found on", title="chosen by model", title_justify="left")
    for item in shipped():
        own.add_row(item.model, item.task, " ".join(map(str, item.heads)), item.data)
    named = Table("name", "model", "heads (layer-head)", "found on", title="published, by name", title_justify="left")
    named.columns[0].no_wrap = True
    for list_ in published():
        named.add_row(PREFIX + list_.name, list_.model, " ".join(map(str, list_.heads)), list_.data)
    console.print(own, named)
    for citation in dict.fromkeys(list_.citation for list_ in published()):
        console.print(f"Published lists: {citation}. Found with another prompt than the one in use here.")


def _name(path: Path) -> str:
    return path.name if path.is_dir() else path.parent.name
