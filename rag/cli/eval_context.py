"""``rag eval context``: what compressors keep of the documents of questions whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli.options import Config, load_settings

if TYPE_CHECKING:
    from rag.eval.collections import Question
    from rag.eval.context import Kept
    from rag.eval.context_results import ContextResults, Row
    from rag.eval.reader import Reader

DEFAULT_SYSTEMS = ("sentinel", "dense", "bm25", "first", "random")
DEFAULT_BUDGETS = (0.1, 0.2, 0.4)
DEFAULT_BASELINE = "dense"

# Column title, measure, and how a mean is shown; columns that no row has are left out.
_COLUMNS = (
    ("kept", "ratio", "{:.3f}"),
    ("recall", "recall", "{:.3f}"),
    ("precision", "precision", "{:.3f}"),
    ("retention", "retention", "{:.3f}"),
    ("AUC", "auc", "{:.3f}"),
    ("s/question", "seconds", "{:.3f}"),
    ("EM", "exact_match", "{:.3f}"),
    ("F1", "f1", "{:.3f}"),
    ("answered", "answered", "{:.3f}"),
    ("tokens in", "reader_tokens_in", "{:.0f}"),
    ("reader s", "reader_seconds", "{:.3f}"),
)


def context(
    files: Annotated[list[Path], typer.Argument(help="Question files: qa.jsonl, gzip too.")],
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system",
            "-s",
            help="Compressor: NAME, NAME:option=value,..., LABEL=NAME:... or LABEL=FILE.yaml; repeatable. "
            "Baselines that write a text of their own: llmlingua, longllmlingua. "
            f"Default: {', '.join(DEFAULT_SYSTEMS)}.",
        ),
    ] = None,
    budget: Annotated[
        list[float] | None,
        typer.Option(
            "--budget",
            "-b",
            help="Share of the documents' tokens, repeatable. Default: 0.1, 0.2, 0.4.",
            show_default=False,
        ),
    ] = None,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Compress only the best documents, as the pipeline ranks them.")
    ] = False,
    top_n: Annotated[int | None, typer.Option(min=1, help="How many documents --rerank leaves.")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="System that the others are compared with. Default: dense, else the first."),
    ] = None,
    fold: Annotated[
        str | None, typer.Option(help="Only questions of fold I/N, I from 0: those that training left out.")
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2, help="Number of folds, for a system with {fold} in its text: each question goes to its own fold's."
        ),
    ] = None,
    questions: Annotated[Path | None, typer.Option(help="Only the questions of this file, one id a line.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first questions of each file.")] = None,
    typos: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Ask every question with so many typing errors too, repeatable.", show_default=False),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            help="Let a reader answer: a model's name, or the base URL of an OpenAI-compatible service "
            "(environment: RAG_READER_MODEL, RAG_READER_KEY)."
        ),
    ] = None,
    config: Config = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="JSONL file to keep results in and to resume from; answers go to *.answers.jsonl beside it."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures here, those of every question too.")
    ] = None,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", help="Draw curves over budgets here (PNG or SVG).")
    ] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Compare compressors: supporting sentences and answers kept under each budget, and what a reader makes of it.

    A budget is a share of the tokens of all documents of a question, also with --rerank.
    """
    from rag.compressors.base import ELLIPSIS
    from rag.eval.context import evaluate
    from rag.eval.context_reading import read
    from rag.eval.context_results import plain, plot, summarise
    from rag.eval.context_systems import build_systems, settings_ranker
    from rag.eval.typos import with_typos
    from rag.resources import Resources

    collections = load_collections(files, fold, questions, limit)
    for name, edits in [(name, edits) for name in collections for edits in typos or ()]:
        collections[f"{name}, {edits} typos"] = with_typos(collections[name], edits)
    settings = load_settings(config, top_n=top_n)
    resources = Resources(settings)
    parts = {"engine": resources.engine, "embedder": resources.embedder}
    systems = build_systems(system or DEFAULT_SYSTEMS, parts, folds)
    labels = [item.label for item in systems]
    compared = baseline or (DEFAULT_BASELINE if DEFAULT_BASELINE in labels else labels[0])
    _check_baseline(compared, labels)
    ranker = None
    ranking: dict[str, Any] | None = None
    if rerank:
        ranker, ranking = settings_ranker(settings, parts, settings.top_n)
        ranking["top_n"] = settings.top_n
    engine: Any = resources.engine()
    description = {"engine": engine.info(), "embedder": settings.embedder, "ranking": ranking}
    kept = evaluate(
        collections,
        systems,
        budget or DEFAULT_BUDGETS,
        engine,
        ranker=ranker,
        journal=journal,
        description=description,
        progress=progress,
    )
    answering = None
    if reader is not None:
        answering = _reader(reader, engine.info(), settings.threads)
        kept = read(
            collections,
            kept,
            answering,
            template=settings.context_template,
            separator=settings.context_separator,
            ellipsis=ELLIPSIS,
            journal=journal and journal.with_suffix(".answers.jsonl"),
            progress=progress,
        )
    results = summarise(kept, compared)
    _show(results)
    if json_file:
        record = {
            "evaluation": "context",
            "collections": {name: _account(of) for name, of in collections.items()},
            "fold": fold,
            "folds": folds,
            "baseline": compared,
            "systems": {item.label: item.identity for item in systems},
            "reader": answering and dict(answering.identity),
            **description,
            "rows": plain(results),
            "questions": [_question(item) for item in kept],
        }
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if plot_file:
        plot(results, ["recall", "retention", *(["f1"] if reader else [])], plot_file)


def load_collections(
    files: Sequence[Path], fold: str | None, ids: Path | None, limit: int | None
) -> dict[str, list[Question]]:
    """The questions of each file that are to be judged, by the file's name, or its folder's for qa.jsonl.

    Raises:
        InputError: a file that is missing or malformed, two of one name, an id that occurs twice or nowhere, no
        question.
    """
    from rag.errors import InputError, shown
    from rag.eval.collections import load_qa
    from rag.eval.folds import Fold

    part = Fold.parse(fold) if fold else None
    named: set[str] | None = None
    if ids is not None:
        named = {line.strip() for line in ids.read_text(encoding="utf-8").splitlines() if line.strip()}
    collections: dict[str, list[Question]] = {}
    found: set[str] = set()
    for file in files:
        stem = file.name.removesuffix(".gz").removesuffix(".jsonl")
        name = file.resolve().parent.name if stem == "qa" else stem
        if name in collections:
            raise InputError(f"{file}: two files are called {shown(name)}")
        every = load_qa(file)
        if len({item.query.id for item in every}) < len(every):
            raise InputError(f"{file}: two questions carry the same id")
        found |= {item.query.id for item in every}
        chosen = [item for item in every if named is None or item.query.id in named]
        collections[name] = [item for item in chosen if part is None or part.holds(item.query.id)][:limit]
    if named is not None and (missing := sorted(named - found)):
        raise InputError(f"{ids}: {len(missing)} of its ids are in no file, the first is {shown(missing[0])}")
    if not any(collections.values()):
        raise InputError("no question is left to judge")
    return collections


def _check_baseline(name: str, labels: Sequence[str]) -> None:
    from rag.errors import ConfigError

    if name not in labels:
        raise ConfigError(f"baseline {name!r} is not among the systems: {', '.join(labels)}")


def _reader(given: str, engine: dict[str, Any], threads: int | None) -> Reader:
    if given.startswith(("http://", "https://")):
        from rag.eval.reader_endpoint import EndpointReader

        return EndpointReader(given)
    from rag.eval.reader import LocalReader

    return LocalReader(given, device=engine["device"], threads=threads)


def _account(questions: Iterable[Question]) -> dict[str, int]:
    """How many questions there are, and how many sentences that a file names stand in none of its documents."""
    from rag.eval.support import find_supporting

    given = list(questions)
    return {"questions": len(given), "sentences_not_found": sum(find_supporting(item)[1] for item in given)}


def _question(item: Kept) -> dict[str, Any]:
    """One line per question, system and budget; values to four digits."""
    return {
        "collection": item.collection,
        "question": item.question,
        "system": item.system,
        "budget": item.budget,
        **{name: None if value is None else round(value, 4) for name, value in item.values.items()},
    }


def _show(results: ContextResults) -> None:
    from rich.console import Console
    from rich.table import Table

    # Nothing is cropped where the table goes into a file or a pipe.
    console = Console() if Console().is_terminal else Console(width=150)
    for collection in dict.fromkeys(row.collection for row in results.rows):
        rows = sorted((row for row in results.rows if row.collection == collection), key=lambda row: row.budget)
        columns = [column for column in _COLUMNS if any(column[1] in row.means for row in rows)]
        measure = "recall" if any("recall" in row.means for row in rows) else "retention"
        table = Table(title=f"{collection}, {rows[0].questions} questions", title_justify="left", box=None)
        for title in ("budget", "system", *(title for title, _, _ in columns), f"{measure} - {results.baseline}", "p"):
            table.add_column(title, justify="left" if title == "system" else "right", no_wrap=True)
        for before, row in zip([None, *rows], rows, strict=False):
            table.add_row(
                f"{row.budget:g}" if before is None or before.budget != row.budget else "",
                row.system,
                *(form.format(row.means[name]) if name in row.means else "" for _, name, form in columns),
                *_against(row, measure),
            )
            if row.impossible:
                note = f"{row.impossible} question(s): the budget is below what the system can keep"
                table.add_row("", note, style="dim")
        console.print(table)
        counted = {name: max(row.counts.get(name, 0) for row in rows) for name in ("recall", "retention", "f1")}
        console.print(", ".join(f"{name} over {count}" for name, count in counted.items() if count), style="dim")
        console.print()


def _against(row: Row, measure: str) -> tuple[str, str]:
    comparison = row.against.get(measure)
    return (f"{comparison.difference:+.3f}", f"{comparison.p_randomisation:.4f}") if comparison else ("", "")
