"""``rag eval report``, ``compare`` and ``synthetic``: what is made of records, and of documents without judgements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli.eval_retrieval import Csv, Failures, Markdown, Report, show, write_reports

if TYPE_CHECKING:
    from rag.eval.synthetic import SyntheticSet


def report(
    record: Annotated[Path, typer.Argument(help="A record of `rag eval retrieval --json`.")],
    failures: Failures = None,
    report: Report = None,
    markdown: Markdown = None,
    csv_file: Csv = None,
) -> None:
    """Show a record again, or write its reports: nothing is measured."""
    from rag.eval.report_record import read_record

    held = read_record(record)
    if report or markdown or csv_file:
        write_reports(held, failures, report=report, markdown=markdown, csv_file=csv_file)
    else:
        show(held, failures)


def compare(
    before: Annotated[Path, typer.Argument(help="A record of `rag eval retrieval --json`.")],
    after: Annotated[Path, typer.Argument(help="A later one.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """What changed between two records: figures with significance over the same queries, data, models, versions."""
    from dataclasses import asdict

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from rag.eval.compare import compare_records
    from rag.eval.report_record import read_record
    from rag.eval.report_tables import p_value

    found = compare_records(read_record(before), read_record(after))
    console = Console() if Console().is_terminal else Console(width=200)
    if found.conditions:
        console.print("Not the same in both:", style="bold")
        for name, old, new in found.conditions:
            console.print(escape(f"  {name}: {old} -> {new}"))
    else:
        console.print("Data, models and versions are the same in both.")
    table = Table(box=None, pad_edge=False)
    for heading in ("system", "measure", "before", "after", "difference", "p (randomisation)", "p (t test)", "queries"):
        table.add_column(heading, justify="left" if heading in ("system", "measure") else "right", no_wrap=True)
    for change in found.changes:
        interval = f" [{change.interval.low:+.3f}, {change.interval.high:+.3f}]" if change.interval else ""
        table.add_row(
            escape(change.system),
            change.measure,
            f"{change.before:.4f}",
            f"{change.after:.4f}",
            escape(f"{change.difference:+.4f}{interval}"),
            *("" if p is None else p_value(p) for p in (change.p_randomisation, change.p_t_test)),
            str(change.queries or "not recorded"),
        )
    console.print(table)
    for label, names in (("before", found.only_before), ("after", found.only_after)):
        if names:
            console.print(escape(f"only {label}: {', '.join(names)}"))
    if json_file:
        json_file.write_text(
            json.dumps({"comparison": "retrieval", **asdict(found)}, indent=1) + "\n", encoding="utf-8"
        )


def synthetic(
    documents: Annotated[list[Path], typer.Argument(help="Your documents: .jsonl, .txt, .md, or folders of them.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write, in the BEIR layout.")],
    count: Annotated[int, typer.Option(min=1, help="Most queries that are made.")] = 100,
    queries: Annotated[
        str, typer.Option(help="headings: titles and headings are the queries; llm: a small model asks.")
    ] = "headings",
    model: Annotated[str, typer.Option(help="The model that asks.")] = "smollm2-135m",
    seed: Annotated[int, typer.Option(help="Which documents are drawn.")] = 1,
    pool: Annotated[
        int, typer.Option(min=0, help="Judge documents by agreement too: those in the first N of both bm25 and dense.")
    ] = 0,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Make a test set from documents alone: known-item queries, judged by where they came from. No person judged it."""
    from rag.corpus import read_documents
    from rag.eval.synthetic import asked_by_model, from_headings, pooled, write_synthetic

    found = read_documents(documents)
    makers = {
        "headings": lambda: from_headings(found, count, seed),
        "llm": lambda: asked_by_model(found, count, seed, model=model, progress=progress),
    }
    if queries not in makers:
        from rag.errors import InputError

        raise InputError(f"--queries {queries!r}; accepted: {', '.join(makers)}")
    made = makers[queries]()
    if pool:
        made = pooled(made, _rankings(made, ("bm25", "dense"), pool), pool)
    write_synthetic(output, made)
    typer.echo(f"{output}: {len(made.queries)} synthetic queries over {len(made.documents)} documents")
    for note in made.notes:
        typer.echo(note, err=True)
    typer.echo(f"rag eval retrieval {output}")


def _rankings(made: SyntheticSet, retrievers: tuple[str, ...], depth: int) -> dict[str, dict[str, list[str]]]:
    from rag import registry
    from rag.config import Settings
    from rag.resources import Resources

    resources = Resources(Settings())
    rankings = {}
    for name in retrievers:
        index = registry.build("retriever", name, {}, {"embedder": resources.embedder}).index(made.documents)
        lists = index.retrieve(made.queries, depth)
        rankings[name] = {
            query.id: [item.document.id for item in items] for query, items in zip(made.queries, lists, strict=True)
        }
    return rankings
