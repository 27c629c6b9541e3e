"""``rag eval``: measure rankings on a collection with judgements."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli.eval_breakeven import breakeven
from rag.cli.eval_context import context
from rag.cli.eval_passages import distractors, position, utility
from rag.cli.eval_stability import stability

if TYPE_CHECKING:
    from rag.eval.retrieval import Results

eval_app = typer.Typer(no_args_is_help=True, help="Evaluate on BEIR collections: retrieval.")

eval_app.command()(context)
eval_app.command()(stability)
eval_app.command()(breakeven)
eval_app.command()(utility)
eval_app.command()(distractors)
eval_app.command()(position)

DEFAULT_SYSTEMS = ("bm25", "dense", "fused", "heads")


@eval_app.command()
def retrieval(
    collection: Annotated[Path, typer.Argument(help="A BEIR folder or zip.")],
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system", "-s", help=f"Retriever or reranker by name, repeatable. Default: {', '.join(DEFAULT_SYSTEMS)}."
        ),
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILE: a run in the TREC form instead of the retriever NAME, repeatable."),
    ] = None,
    split: Annotated[str, typer.Option(help="Which qrels.")] = "test",
    qrels: Annotated[str | None, typer.Option(help="Another qrels file inside the collection.")] = None,
    k: Annotated[int, typer.Option(min=1, help="Documents retrieved, reranked and measured per query.")] = 20,
    candidates: Annotated[str, typer.Option(help="Retriever whose list is reranked.")] = "fused",
    baseline: Annotated[str, typer.Option(help="System that the others are compared with.")] = "bm25",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first queries.")] = None,
    measures: Annotated[str, typer.Option(help="Names of ir-measures, with commas.")] = "nDCG@10,RR@10,R@20",
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Settings file (YAML).")] = None,
    journal: Annotated[Path | None, typer.Option(help="JSONL file to keep results in and to resume from.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Compare retrievers, and rerankers of one retriever's list, with significance and time per query."""
    from dataclasses import replace

    from rag import registry
    from rag.config import Settings
    from rag.eval.collections import load_beir
    from rag.eval.retrieval import evaluate
    from rag.eval.runs import read_run
    from rag.eval.systems import Reranked, from_run, systems
    from rag.resources import Resources, load_engine

    source = load_beir(collection, split, qrels=qrels)
    for warning in source.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if limit is not None:
        kept = source.queries[:limit]
        source = replace(source, queries=kept, qrels={query.id: source.qrels[query.id] for query in kept})
    known = registry.names("retriever")
    given = {name: from_run(source, read_run(path), k) for name, path in map(_named_file, run or [])}
    named = dict.fromkeys([*(system or DEFAULT_SYSTEMS), baseline, candidates])
    names = [name for name in named if name not in given]
    settings = Settings.load(config)
    engine = load_engine(settings) if any(name not in known for name in names) else None
    resources = Resources(settings, engine)
    parts = {"engine": resources.engine, "embedder": resources.embedder}
    chosen = systems(
        source,
        given,
        {name: registry.build("retriever", name, {}, parts) for name in names if name in known},
        {name: registry.build("reranker", name, {}, parts) for name in names if name not in known},
        candidates=candidates,
        k=k,
        begin=engine.clear_cache if engine else lambda: None,
    )
    description = {"candidates": candidates, "runs": sorted(given), "engine": engine.info() if engine else None}
    results = evaluate(
        source,
        chosen,
        k,
        [name.strip() for name in measures.split(",")],
        baseline=baseline,
        output=journal,
        progress=progress,
        description=description,
    )
    timings = {name: item.timings() for name, item in chosen.items() if isinstance(item, Reranked)}
    _show(results, timings, len(source.queries))
    if json_file:
        # A list that was made beforehand takes no time to look up, and rerankers time themselves.
        timed = {"p50 s", "p95 s"}
        record: dict[str, Any] = {
            "collection": source.name,
            "qrels": qrels or split,
            "queries": len(source.queries),
            "k": k,
            **description,
            "systems": [{name: value for name, value in row.items() if name not in timed} for row in results.table()],
            "seconds": {name: {kind: asdict(item) for kind, item in of.items()} for name, of in timings.items()},
        }
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _named_file(text: str) -> tuple[str, Path]:
    from rag.errors import InputError

    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise InputError(f"--run {text!r}; accepted: NAME=FILE")
    return name, Path(path)


def _show(results: Results, timings: dict[str, dict[str, Any]], queries: int) -> None:
    from rich.console import Console
    from rich.table import Table

    first = results.measures[0]
    table = Table(
        "system",
        *results.measures,
        f"{first} vs {results.baseline}",
        "p",
        "s/query cold",
        "warm",
        title=f"{results.collection}, {queries} queries",
        title_justify="left",
    )
    for name, result in results.systems.items():
        against = result.against_baseline.get(first)
        times = timings.get(name, {})
        table.add_row(
            name,
            *(f"{result.evaluation.aggregate[measure]:.4f}" for measure in results.measures),
            f"{against.difference:+.4f}" if against else "",
            f"{against.p_randomisation:.4f}" if against else "",
            *(f"{times[kind].p50:.3f}" if kind in times else "" for kind in ("cold", "warm")),
        )
    Console().print(table)
