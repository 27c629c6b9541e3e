"""``rag order``: where a model looks in its context, and whether the order of documents changes its answers."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli.options import Config, Model, load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from rag.eval.order_effects import Effect, OrderEffects

order_app = typer.Typer(no_args_is_help=True, help="Order of documents: profile a model's attention, measure effects.")


@order_app.command()
def profile(
    sources: Annotated[
        list[Path],
        typer.Argument(help="qa.jsonl files, BEIR folders, or documents (a document's title is then its query)."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the profile goes (JSON).")],
    documents: Annotated[str, typer.Option(help="Numbers of documents per prompt, with commas.")] = "5,10,20",
    prompts: Annotated[int, typer.Option(min=2, help="Prompts of each number: 100 or more for a smooth curve.")] = 100,
    layer: Annotated[
        str,
        typer.Option(
            help="basin (the shallowest layer that shows one, as published), mean (of all layers), or a number."
        ),
    ] = "basin",
    sentences: Annotated[
        int | None, typer.Option(min=1, help="Only the first sentences of each document: shorter prompts.")
    ] = None,
    split: Annotated[str, typer.Option(help="Which qrels of a BEIR folder.")] = "train",
    plot: Annotated[Path | None, typer.Option(help="Draw the curves here (PNG or SVG).")] = None,
    journal: Annotated[Path | None, typer.Option(help="JSONL file to keep readings in and to resume from.")] = None,
    model: Model = None,
    config: Config = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Measure how much attention each slot of the context gets, whatever stands there: the basin.

    The profile is for the orderings attnrank and found-in-the-middle. The causal layout is used, whatever the settings
    say. Other choices of --layer need no new readings with the same --journal.
    """
    from rich.console import Console
    from rich.table import Table

    from rag.compressors.ordering.profiling import basin_layer, is_basin, require_layer, slot_profile
    from rag.eval.slot_prompts import read_source
    from rag.eval.slot_readings import draw_basin, read_prompts
    from rag.resources import load_engine

    counts = _counts(documents)
    chosen = _layer(layer)
    source = read_source(sources, split, sentences)
    engine = load_engine(load_settings(config, model=model, engine__layout="causal"))
    if isinstance(chosen, int):
        require_layer(engine, chosen)
    readings = read_prompts(engine, source, counts, prompts, journal=journal, progress=progress)
    shallowest = basin_layer(readings)
    cut = f", the first {sentences} sentence(s) of each document" if sentences else ""
    made = slot_profile(
        engine, readings, f"{source.name}: {prompts} prompts of each number, shuffled{cut}", _chosen(chosen, shallowest)
    )
    made.save(output)
    if plot:
        draw_basin(made, plot)
    table = Table("documents", "attention per slot (mean slot = 1)", "basin", title_justify="left")
    table.title = f"{made.model}, layers {made.layers[0]} to {made.layers[1]}"
    for count, curve in made.curves.items():
        values = " ".join(f"{value:.2f}" for value in curve.attention)
        table.add_row(str(count), values, "yes" if is_basin(curve.attention) else "no")
    console = Console(stderr=True)
    console.print(table)
    console.print(
        f"shallowest layer with a basin for every number of documents: {'none' if shallowest is None else shallowest}"
    )
    typer.echo(str(output))


@order_app.command()
def effects(
    file: Annotated[Path, typer.Argument(help="Questions with answers and documents: qa.jsonl, gzip too.")],
    ordering: Annotated[
        list[str] | None,
        typer.Option(
            "--ordering",
            "-s",
            help="NAME, NAME:option=value,... or LABEL=NAME:..., repeatable. Default: ranked, reversed, interleave, "
            "attention-sort, found-in-the-middle, and attnrank where a profile of the reader ships.",
        ),
    ] = None,
    documents: Annotated[int, typer.Option(min=2, help="Documents per question.")] = 5,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first usable questions.")] = None,
    shuffles: Annotated[int, typer.Option(min=1, help="Random orders per question: the control.")] = 3,
    reader: Annotated[
        str | None, typer.Option(help="Model that reads the context; default: the attention model.", show_default=False)
    ] = None,
    config: Config = None,
    journal: Annotated[Path | None, typer.Option(help="JSONL file to keep results in and to resume from.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here, also per question.")] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Measure what the order of documents does to a reader: log-likelihood of the answer.

    First the document with the answer at every place among the others, then every ordering against random order. The
    orderings get the documents as the settings' retriever and reranker rank them.
    """
    from rag.eval.collections import load_qa
    from rag.eval.context_systems import settings_ranker
    from rag.eval.order_effects import cases, effects, read_cases, reading_context
    from rag.eval.order_systems import DEFAULT_ORDERINGS, build_orderings, default_orderings
    from rag.eval.progress import progress_bar
    from rag.eval.reader import LocalReader
    from rag.resources import Resources, resolve_device

    questions = load_qa(file)
    usable = cases(questions, documents)
    settings = load_settings(config)
    resources = Resources(settings)
    engine: Any = resources.engine()
    parts = {"engine": resources.engine, "embedder": resources.embedder}
    info = engine.info()
    # A profile is one of the reader's.
    own = default_orderings(info["fingerprint"], info["template"]) if reader in (None, settings.model) else None
    orderings, identities = build_orderings(ordering or own or DEFAULT_ORDERINGS, parts)
    ranker, ranking = settings_ranker(settings, parts, documents)
    reading = LocalReader(reader or settings.model, device=resolve_device(settings.device), threads=settings.threads)
    description = {
        "documents": documents,
        "orderings": identities,
        "ranking": ranking,
        "engine": info,
        "embedder": settings.embedder,
        "reader": dict(reading.identity),
        "context": [settings.context_template, settings.context_separator],
    }
    chosen = usable[:limit]
    with progress_bar(progress, len(chosen)) as step:
        readings = read_cases(
            chosen,
            reading.log_likelihood,
            lambda query, given: ranker.rank(query, given, engine),
            orderings,
            reading_context(settings.context_template, settings.context_separator),
            shuffles=shuffles,
            journal=journal,
            description=description,
            step=step,
        )
    results = effects(readings)
    _show(results, documents)
    if skipped := len(questions) - len(usable):
        typer.echo(
            f"{skipped} of {len(questions)} questions have no supporting document that holds an answer", err=True
        )
    if json_file:
        record = {
            "evaluation": "order-effects",
            "collection": str(file),
            "questions": results.questions,
            "skipped": skipped,
            "shuffles": shuffles,
            **description,
            "shuffle": {"mean": results.shuffle, "spread": results.shuffle_spread},
            "places_against_their_mean": [_row(effect) for effect in results.places],
            "orderings_against_shuffle": [_row(effect) for effect in results.orderings],
            "summary": results.summary,
            "readings": [asdict(item) for item in readings],
        }
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _counts(text: str) -> list[int]:
    """Numbers of documents from a list with commas, ascending."""
    from rag.errors import InputError, shown

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and int(part) >= 2 for part in parts):
        raise InputError(f"numbers of documents {shown(text)}; accepted: whole numbers of 2 or more, with commas")
    return sorted({int(part) for part in parts})


def _layer(given: str) -> int | str:
    """``mean``, ``basin`` or a number."""
    from rag.errors import InputError, shown

    if given in ("mean", "basin"):
        return given
    if given.isascii() and given.isdecimal():
        return int(given)
    raise InputError(f"layer {shown(given)}; accepted: basin, mean, or a layer's number from 0")


def _chosen(given: int | str, shallowest: int | None) -> int | None:
    """The layer to take; None for the mean of all.

    Raises:
        InputError: a basin was asked for and no layer shows one.
    """
    from rag.errors import InputError

    if given == "mean":
        return None
    if given == "basin":
        if shallowest is None:
            raise InputError(
                "no layer shows a basin for every number of documents; accepted: --layer mean, or a layer's number"
            )
        return shallowest
    return int(given)


def _row(effect: Effect) -> dict[str, Any]:
    return {**asdict(effect), "verdict": effect.verdict}


def _show(results: OrderEffects, documents: int) -> None:
    from rich.console import Console

    console = Console() if Console().is_terminal else Console(width=150)
    title = f"answer log-likelihood (nats per token), {results.questions} questions of {documents} documents"
    console.print(_table(f"{title}: gold at each place", "place", "vs all places", results.places))
    console.print()
    console.print(_table(f"{title}: orderings", "ordering", "vs shuffle", results.orderings))
    console.print(
        f"shuffle: {results.shuffle:.4f}, between random orders of one question ±{results.shuffle_spread:.4f}"
    )
    console.print(results.summary)


def _table(title: str, first: str, control: str, effects: Sequence[Effect]) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in (first, "mean", control, "95 %", "p", "p (t)", "p (Holm)", "verdict"):
        table.add_column(name, justify="left" if name in (first, "verdict") else "right", no_wrap=True)
    for effect in effects:
        table.add_row(
            effect.name,
            f"{effect.mean:.4f}",
            f"{effect.difference:+.4f}",
            f"{effect.interval.low:+.4f} {effect.interval.high:+.4f}",
            *(f"{p:.4f}" for p in (effect.p_randomisation, effect.p_t, effect.p_holm)),
            effect.verdict,
        )
    return table
