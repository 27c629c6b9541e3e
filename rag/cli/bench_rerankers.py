"""``rag bench rerankers``: seconds per query of every reranker, cold and warm, over the same candidates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rag.cli.options import Config, load_settings

DEFAULT_SYSTEMS = (
    "bm25",
    "dense",
    "rrf=fused:method=rrf",
    "fused",
    "probe",
    "heads",
    "icr",
    "reattn",
    "blockrank",
    "attention-sorting",
    "found-in-the-middle",
    "permutation-average",
    "pointwise",
)
"""Each method whose model is at hand; the first reranker is what the others are compared with."""


def rerankers(
    collection: Annotated[str, typer.Argument(help="A BEIR folder or zip, or ir_datasets:NAME.")],
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system",
            "-s",
            help="Retriever or reranker: NAME, NAME:option=value,... or LABEL=NAME:..., repeatable. "
            "Default: every method that needs no further model or file.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Which qrels of a BEIR folder.")] = "test",
    queries: Annotated[int, typer.Option(min=2, help="Only the first queries.")] = 6,
    k: Annotated[int, typer.Option(min=1, help="Candidates per query.")] = 20,
    candidates: Annotated[str, typer.Option(help="Retriever whose list is reranked.")] = "fused",
    config: Config = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="JSONL file to keep seconds in and to resume from; retrieved lists go to *.lists beside it."),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Measure what a query takes, one at a time: candidates never read (cold), and read by another query (warm).

    Medians over the queries; ratios are to the first reranker. Retrievers are shown with what their lists took.
    """
    from dataclasses import replace

    from rich.console import Console

    from rag import registry
    from rag.config import StageSettings
    from rag.errors import ConfigError
    from rag.eval import bench_rerankers
    from rag.eval.bench_engine import machine
    from rag.eval.bench_tables import RERANKERS, table
    from rag.eval.collection_files import load_collection
    from rag.eval.context_systems import parse_system
    from rag.eval.lineup import Lineup
    from rag.eval.progress import progress_bar
    from rag.eval.report_record import versions
    from rag.eval.retrieval import fingerprint

    # Nothing remembered: a question that one retriever has embedded would cost the next one nothing.
    settings = load_settings(config, embedding_cache_bytes=0)
    if settings.engine.store is not None:
        raise ConfigError("engine.store keeps what was read, so nothing would be cold; accepted: settings without it")
    known = registry.names("retriever")
    stages = [parse_system(text) for text in system or DEFAULT_SYSTEMS]
    retrievers = [(label, stage) for label, stage in stages if stage.name in known]
    others = [(label, stage) for label, stage in stages if stage.name not in known]
    for _, stage in others:
        registry.check("reranker", stage.name, stage.options, ("engine", "embedder"))  # before anything is indexed
    if others and candidates not in dict(retrievers):
        retrievers.append((candidates, StageSettings(name=candidates)))
    whole = load_collection(collection, split)
    source = replace(whole, queries=whole.queries[:queries])
    lineup = Lineup(source, k, store=journal.with_suffix(".lists") if journal else None, progress=progress)
    for label, stage in retrievers:
        lineup.add_retriever(label, stage, settings)
    for label, stage in others:
        lineup.add_reranker(label, stage, settings, candidates)
    with progress_bar(progress, len(others) * len(source.queries)) as step:
        measured = bench_rerankers.measure(
            lineup.systems,
            source.queries,
            identities=lineup.identities,
            journal=journal,
            header={"collection": source.name, "data": fingerprint(source), "k": k},
            step=step,
        )
    baseline = next((of for of in measured if of.cold), None)
    rows = [of.row(baseline) for of in measured]
    title = f"{len(source.queries)} queries of {source.name}, {k} candidates each"
    console = Console() if Console().is_terminal else Console(width=150)
    console.print(table(title, RERANKERS, rows))
    record: dict[str, Any] = {
        "benchmark": "rerankers",
        "collection": source.name,
        "queries": len(source.queries),
        "k": k,
        "candidates": candidates,
        "baseline": baseline and baseline.system,
        "machine": machine(),
        "versions": versions(),
        "engines": lineup.engines(),
        "tokens": lineup.tokens(),
        "rows": rows,
    }
    if json_file:
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
