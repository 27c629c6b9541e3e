"""``rag eval retrieval``: rankings of stages and whole pipelines on a collection with judgements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli.options import Config, load_settings

if TYPE_CHECKING:
    from rag.config import Settings
    from rag.eval.collections import Collection
    from rag.eval.lineup import Lineup
    from rag.eval.retrieval import Results

DEFAULT_SYSTEMS = ("bm25", "dense", "fused", "probe")
DEFAULT_BASELINE = "bm25"

REPORTED_FAILURES = 5

Failures = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Show the N largest losses and gains of each system against the baseline, both rankings side by side. "
        f"Default: none here, {REPORTED_FAILURES} in reports.",
        show_default=False,
    ),
]
Report = Annotated[Path | None, typer.Option("--report", help="Write a self-contained HTML page here.")]
Markdown = Annotated[Path | None, typer.Option("--markdown", help="Write the report as Markdown here.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write the figures as CSV here.")]


def retrieval(
    collection: Annotated[
        str | None, typer.Argument(help="A BEIR folder or zip, or ir_datasets:NAME.", show_default=False)
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system",
            "-s",
            help="Retriever or reranker: NAME, NAME:option=value,... or LABEL=NAME:..., repeatable. "
            f"Default: {', '.join(DEFAULT_SYSTEMS)}.",
        ),
    ] = None,
    pipeline: Annotated[
        list[str] | None,
        typer.Option(
            "--pipeline",
            "-p",
            help="FILE.yaml or LABEL=FILE.yaml: the retriever and reranker of these settings, repeatable.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILE: a run (TREC form or JSON) instead of the retriever NAME, repeatable."),
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Documents of your own: JSONL, CSV or TSV, with --queries and --qrels.")
    ] = None,
    queries: Annotated[str | None, typer.Option(help="File of queries, of your own or inside the folder.")] = None,
    qrels: Annotated[str | None, typer.Option(help="File of judgements, of your own or inside the folder.")] = None,
    split: Annotated[str, typer.Option(help="Which qrels of a BEIR folder.")] = "test",
    k: Annotated[int, typer.Option(min=1, help="Documents retrieved, reranked and measured per query.")] = 20,
    candidates: Annotated[str, typer.Option(help="Retriever whose list rerankers of --system rerank.")] = "fused",
    baseline: Annotated[
        str | None,
        typer.Option(
            help=f"System that the others are compared with. Default: {DEFAULT_BASELINE}, with --pipeline the first "
            "system.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first queries.")] = None,
    measures: Annotated[str, typer.Option(help="Names of ir-measures, with commas.")] = "nDCG@10,RR@10,R@20",
    remove_self: Annotated[
        bool | None,
        typer.Option(
            "--remove-self/--keep-self",
            help="Leave out documents that carry their query's own id. Default: only for ArguAna and Quora, by name.",
            show_default=False,
        ),
    ] = None,
    config: Config = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="JSONL file to keep results in and to resume from; retrieved lists go to *.lists beside it."),
    ] = None,
    failures: Failures = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures here, those of every query too.")
    ] = None,
    report: Report = None,
    markdown: Markdown = None,
    csv_file: Csv = None,
    save_runs: Annotated[Path | None, typer.Option(help="Folder to write every system's run to (TREC form).")] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Compare retrievers, rerankers and pipelines: measures, significance, time, and the queries that differ most.

    Settings in the environment are stronger than a pipeline's file, as everywhere.
    """
    from rag.eval.collection_files import load_collection, retrieves_itself
    from rag.eval.lineup import Lineup
    from rag.eval.report_record import make_record
    from rag.eval.retrieval import evaluate

    source = _limited(load_collection(collection, split, corpus=corpus, queries=queries, qrels=qrels), limit)
    for warning in source.warnings:
        typer.echo(f"warning: {warning}", err=True)
    without_self = retrieves_itself(source.name) if remove_self is None else remove_self
    if without_self:
        why = f"the default for {source.name}; --keep-self keeps them" if remove_self is None else "as asked"
        typer.echo(f"documents that carry their query's own id are left out ({why})", err=True)
    files = [_named_file(text, "--run") for text in run or []]
    pipelines = [_pipeline_file(text) for text in pipeline or []]
    settings = load_settings(config)
    lineup = Lineup(
        source,
        k,
        remove_self=without_self,
        store=journal.with_suffix(".lists") if journal else None,
        progress=progress,
    )
    chosen = system or (() if pipelines else DEFAULT_SYSTEMS)
    reranked = _fill(lineup, files, chosen, pipelines, settings, baseline, candidates)
    results = evaluate(
        source,
        lineup.systems,
        k,
        [name.strip() for name in measures.split(",")],
        baseline=_baseline(lineup, baseline, bool(pipelines)),
        output=journal,
        progress=progress,
        remove_self=without_self,
        identities=lineup.identities,
    )
    extra: dict[str, Any] = {"qrels": qrels or (split if corpus is None else None), "runs": [name for name, _ in files]}
    extra["candidates"] = candidates if reranked else None
    record = make_record(
        results,
        source,
        k=k,
        remove_self=without_self,
        identities=lineup.identities,
        engines=lineup.engines(),
        timings=lineup.timings(),
        tokens=lineup.tokens(),
        extra=extra,
    )
    show(record, failures)
    write_reports(record, failures, json_file=json_file, report=report, markdown=markdown, csv_file=csv_file)
    if save_runs:
        _save_runs(save_runs, results)


def show(record: dict[str, Any], failures: int | None) -> None:
    """Print the figures and the queries that differ most."""
    from rich.console import Console
    from rich.markup import escape

    from rag.eval import report_tables

    console = Console() if Console().is_terminal else Console(width=200)
    console.print(escape(f"{record['collection']}, {record['queries']} queries"))
    for note in record.get("warnings", ()):
        console.print(escape(note), style="bold")
    tables = ((report_tables.summary(record), 1), (report_tables.cost(record), 1))
    for table, names in tables:
        if table.rows:
            console.print(_rich(table, names))
    for name, losses, gains in report_tables.failures(record, failures or 0):
        for what, items in (("losses", losses), ("gains", gains)):
            for item in items:
                console.print(
                    escape(f"\n{name}, one of the largest {what}: {item.query}: {item.text}\n")
                    + escape(f"{item.measure} {item.value:.4f}, {item.baseline} {item.baseline_value:.4f}")
                )
                console.print(_rich(report_tables.side_by_side(item), 3))


def write_reports(
    record: dict[str, Any],
    failures: int | None,
    *,
    json_file: Path | None = None,
    report: Path | None = None,
    markdown: Path | None = None,
    csv_file: Path | None = None,
) -> None:
    """Write the record and its reports to those files that are given."""
    from rag.eval import report_tables
    from rag.eval.report_html import html_report
    from rag.eval.report_record import write_record

    count = REPORTED_FAILURES if failures is None else failures
    if json_file:
        write_record(json_file, record)
    if report:
        report.write_text(html_report(record, count), encoding="utf-8")
    if markdown:
        markdown.write_text(report_tables.markdown(record, count), encoding="utf-8")
    if csv_file:
        csv_file.write_text(report_tables.as_csv(record), encoding="utf-8")


def _limited(source: Collection, limit: int | None) -> Collection:
    from dataclasses import replace

    if limit is None:
        return source
    kept = source.queries[:limit]
    return replace(source, queries=kept, qrels={query.id: source.qrels[query.id] for query in kept})


def _fill(
    lineup: Lineup,
    files: Sequence[tuple[str, Path]],
    chosen: Sequence[str],
    pipelines: Sequence[tuple[str, Path]],
    settings: Settings,
    baseline: str | None,
    candidates: str,
) -> bool:
    """Runs, retrievers, rerankers, pipelines, in this order; True where there is a reranker of ``candidates``."""
    from rag import registry
    from rag.config import Settings, StageSettings
    from rag.eval.context_systems import parse_system
    from rag.eval.runs import read_run

    for name, path in files:
        lineup.add_run(name, read_run(path), path)
    known = registry.names("retriever")
    stages = [parse_system(text) for text in dict.fromkeys(chosen) if text not in lineup.systems]
    rerankers = [(label, stage) for label, stage in stages if stage.name not in known]
    retrievers = {label: stage for label, stage in stages if stage.name in known}
    labels = {label for label, _ in (*stages, *pipelines)}
    # What others are compared with or rerank is there too, without being asked for.
    wanted = [baseline or (DEFAULT_BASELINE if stages and not pipelines else None), candidates if rerankers else None]
    for extra in wanted:
        if extra and extra not in lineup.systems and extra not in labels and extra in known:
            retrievers[extra] = StageSettings(name=extra)
    for _, stage in rerankers:
        registry.check("reranker", stage.name, stage.options, ("engine", "embedder"))  # before anything is indexed
    loaded = [(label, Settings.load(path)) for label, path in pipelines]
    for label, stage in retrievers.items():
        lineup.add_retriever(label, stage, settings)
    for label, stage in rerankers:
        lineup.add_reranker(label, stage, settings, candidates)
    for label, its_settings in loaded:
        lineup.add_pipeline(label, its_settings)
    return bool(rerankers)


def _baseline(lineup: Lineup, asked: str | None, pipelines: bool) -> str | None:
    if asked is None and not pipelines and DEFAULT_BASELINE in lineup.systems:
        return DEFAULT_BASELINE
    return asked


def _named_file(text: str, option: str) -> tuple[str, Path]:
    from rag.errors import InputError

    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise InputError(f"{option} {text!r}; accepted: NAME=FILE")
    return name, Path(path)


def _pipeline_file(text: str) -> tuple[str, Path]:
    """``FILE.yaml``, called after the file, or ``LABEL=FILE.yaml``."""
    if "=" in text and not Path(text).is_file():
        return _named_file(text, "--pipeline")
    return Path(text).stem, Path(text)


def _save_runs(folder: Path, results: Results) -> None:
    """One file per system; what cannot be in a file's name or a run's tag becomes a hyphen."""
    import re

    from rag.errors import InputError
    from rag.eval.runs import write_run

    names = {name: re.sub(r"[^\w.@+-]+", "-", name) for name in results.systems}
    if len(set(names.values())) < len(names):
        raise InputError(f"two systems would be written to one file in {folder}: {', '.join(names)}")
    folder.mkdir(parents=True, exist_ok=True)
    for name, result in results.systems.items():
        write_run(folder / f"{names[name]}.run", result.run, tag=names[name])


def _rich(table: Any, text_columns: int) -> Any:
    from rich.markup import escape
    from rich.table import Table

    made = Table(box=None, pad_edge=False)
    for place, heading in enumerate(table.headings):
        made.add_column(
            escape(heading),
            justify="left" if place < text_columns else "right",
            no_wrap=text_columns == 1,
            overflow="fold",
        )
    for row in table.rows:
        made.add_row(*map(escape, row))
    return made
