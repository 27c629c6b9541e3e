"""``rag probe``: learn which heads, with which weights, say that a document or a sentence is relevant."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rag.cli.judgements import show_judgements, write_judgements
from rag.cli.ltr_options import Cache, Count, Folds, Json, Progress, Skip
from rag.cli.options import Config, Model, load_settings
from rag.errors import InputError, shown

probe_app = typer.Typer(no_args_is_help=True, help="Probes over attention heads: train, eval, list.")


class Task(StrEnum):
    """What is ranked."""

    document = "document"
    sentence = "sentence"


Sources = Annotated[
    list[str],
    typer.Argument(
        help="Task document: BEIR folders as FOLDER[:SPLIT[:QUERIES FILE]], split train by default. "
        "Task sentence: qa.jsonl files."
    ),
]
TaskOption = Annotated[Task, typer.Option(help="What is ranked.")]
Layers = Annotated[int | None, typer.Option(min=1, help="Look at the lowest layers only; default: all.")]
Candidates = Annotated[int, typer.Option("--k", min=2, help="Candidates per query (task document).")]


@probe_app.command()
def train(
    sources: Sources,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the probe goes (JSON).")],
    task: TaskOption = Task.document,
    keep: Annotated[int | None, typer.Option(min=1, help="Heads per statistic. Default: 8.")] = None,
    l2: Annotated[float | None, typer.Option(min=0, help="Strength of regularisation. Default: 0.1.")] = None,
    layers: Layers = None,
    count: Count = None,
    skip: Skip = 0,
    k: Candidates = 20,
    folds: Folds = 5,
    fold: Annotated[
        str | None, typer.Option(help="i/n: leave out the questions of this fold, to judge on (task sentence).")
    ] = None,
    cache: Cache = None,
    model: Model = None,
    config: Config = None,
    json_file: Json = None,
    progress: Progress = True,
) -> None:
    """Learn a probe, and show what such a probe is worth on queries and collections it has not seen.

    Documents are the candidates that the fused retriever finds, sentences those of each question's documents.
    """
    from rag.artefacts import EngineIdentity
    from rag.eval.probe_data import read
    from rag.eval.probe_fit import KEEP, L2, learn
    from rag.eval.probe_training import as_probe, cross_validated, judge, left_out, log_odds, signals
    from rag.resources import load_engine

    keep, l2 = keep or KEEP, L2 if l2 is None else l2
    settings = load_settings(config, model=model)
    engine = load_engine(settings)
    data = read(
        task.value, sources, settings, engine, layers=layers, count=count, skip=skip, k=k, fold=fold, cache=cache,
        progress=progress,
    )  # fmt: skip
    _warn(data.warnings)
    orders = {
        **data.baselines,
        **signals(data.lists, data.columns),
        f"probe, {folds} folds": cross_validated(data.lists, data.columns, folds, keep, l2),
    }
    if len(data.lists) > 1:
        orders["probe of the other collections"] = left_out(data.lists, data.columns, keep, l2)
    judged = {name: judge(data.lists, orders, measure) for name, measure in data.measures.items()}
    lists = [item for of in data.lists.values() for item in of]
    learned, bias = learn(lists, data.columns, keep, l2), 0.0
    if task is Task.sentence:
        learned, bias = log_odds(learned, lists)
    probe = as_probe(
        learned,
        data.columns,
        task=task.value,
        engine=EngineIdentity.of(engine),
        bias=bias,
        method=f"listwise softmax loss, weights not negative, l2 {l2:g}, best {keep} heads of each statistic",
        data=data.trained_on,
    )
    probe.save(output)
    show_judgements(judged)
    weights = [f"{item.statistic} {item.head} {item.weight:.3f}" for item in probe.heads]
    typer.echo("; ".join([*weights, *(f"{name} {weight:.3f}" for name, weight in probe.signals.items())]))
    write_judgements(json_file, judged)
    typer.echo(str(output))


@probe_app.command("eval")
def evaluate(
    sources: Sources,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="The probe that `rag probe train` wrote; default: shipped.")
    ] = None,
    task: TaskOption = Task.document,
    count: Count = None,
    skip: Skip = 0,
    k: Candidates = 20,
    fold: Annotated[str | None, typer.Option(help="i/n: only the questions of this fold (task sentence).")] = None,
    cache: Cache = None,
    model: Model = None,
    config: Config = None,
    json_file: Json = None,
    progress: Progress = True,
) -> None:
    """Judge a probe on labelled queries; those that it was learned from are refused."""
    from rag.artefacts import seen
    from rag.attention.probe import Probe
    from rag.eval.probe_data import probe_score, read, statistics
    from rag.eval.probe_training import judge, signals
    from rag.resources import load_engine

    settings = load_settings(config, model=model)
    engine = load_engine(settings)
    probe = Probe.choose(engine, task.value, file, statistics(task.value))
    layers = max(head.layer for head in probe.read_heads()) + 1
    data = read(
        task.value, sources, settings, engine, layers=layers, count=count, skip=skip, k=k, fold=fold, held_out=True,
        cache=cache, progress=progress,
    )  # fmt: skip
    _warn(data.warnings)
    known = seen(probe.data, data.queries)
    if known:
        raise InputError(
            f"{len(known)} of {len(data.queries)} queries were learned from ({shown(known[0])}, ...): "
            "a probe is judged on others"
        )
    score = probe_score(probe, data.columns)
    scores = {item.key: score(item) for of in data.lists.values() for item in of}
    orders = {**data.baselines, **signals(data.lists, data.columns), "probe": scores}
    judged = {name: judge(data.lists, orders, measure) for name, measure in data.measures.items()}
    show_judgements(judged)
    write_judgements(json_file, judged)


@probe_app.command("list")
def list_probes() -> None:
    """Show the probes that ship with the package."""
    from rich.console import Console
    from rich.table import Table

    from rag.attention.probe import shipped

    table = Table("model", "task", "heads", "signals", "learned from")
    for item in shipped():
        table.add_row(
            item.engine.model,
            item.task,
            " ".join(map(str, item.read_heads())),
            " ".join(item.signals),
            ", ".join(f"{source.collection} ({len(source.queries)})" for source in item.data),
        )
    Console().print(table)


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
