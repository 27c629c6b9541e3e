"""``rag eval utility``, ``distractors`` and ``position``: what single passages do to a reader, or to an embedder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli.eval_context import load_collections
from rag.cli.options import Config, load_settings

if TYPE_CHECKING:
    from rich.table import Table

    from rag.config import Settings
    from rag.eval.collections import Question
    from rag.eval.reader import LocalReader
    from rag.eval.significance import Interval
    from rag.types import Document

Files = Annotated[list[Path], typer.Argument(help="Question files: qa.jsonl, gzip too.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first questions of each file.")]
ReaderName = Annotated[str, typer.Option(help="A model on this machine, by name: its likelihoods are needed.")]
Journal = Annotated[Path | None, typer.Option(help="JSONL file to keep results in and to resume from.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the figures here.")]
Bar = Annotated[bool, typer.Option(help="Show a progress bar.")]


def utility(
    files: Files,
    reader: ReaderName = "smollm2-135m",
    limit: Limit = 10,
    config: Config = None,
    journal: Journal = None,
    json_file: JsonFile = None,
    progress: Bar = True,
) -> None:
    """What each passage is worth to a reader: the answer's log-likelihood without it, with another, with it twice."""
    from rag.eval.significance import bootstrap_interval

    collections = load_collections(files, None, None, limit)
    settings = load_settings(config)
    reading = _reader(reader, settings)
    jobs: dict[tuple[str, str], Callable[[], Any]] = {}
    for name, questions in collections.items():
        texts = [document for item in questions for document in item.documents]
        for item in questions:
            if item.answers:
                jobs[name, item.query.id] = partial(_utility, item, texts, reading, settings)
    found = _run("utility", jobs, collections, reading, settings, journal, progress)
    table = _table("gain in log-likelihood per token of the answer (95 % interval)")
    for title in ("collection", "passages", "number", "remove", "replace", "duplicate"):
        table.add_column(title, justify="left" if title in ("collection", "passages") else "right", no_wrap=True)
    rows = []
    for name in collections:
        every = [of for (collection, _), items in found.items() if collection == name for of in items]
        for kind, needed in (("needed", True), ("others", False)):
            chosen = [of for of in every if of["supporting"] is needed]
            if not chosen:
                continue
            values = {of: [item[of] for item in chosen] for of in ("remove", "replace", "duplicate")}
            intervals = {of: bootstrap_interval(column) for of, column in values.items()}
            means = {of: sum(column) / len(column) for of, column in values.items()}
            rows.append({"collection": name, "needed": needed, "passages": len(chosen), "means": means,
                         "intervals": intervals})  # fmt: skip
            shown = (_mean(means[of], intervals[of]) for of in values)
            table.add_row(name, kind, str(len(chosen)), *shown)
    _finish(table, json_file, {
        "evaluation": "utility", "reader": dict(reading.identity), "rows": rows, "questions": _listed(found),
    })  # fmt: skip


def distractors(
    files: Files,
    reader: ReaderName = "smollm2-135m",
    count: Annotated[int, typer.Option(min=1, help="Irrelevant passages beside the needed ones.")] = 4,
    share: Annotated[
        list[float] | None,
        typer.Option(
            help="Share of them that is hard, repeatable. Default: 0, 0.25, 0.5, 0.75, 1.", show_default=False
        ),
    ] = None,
    limit: Limit = 10,
    config: Config = None,
    journal: Journal = None,
    json_file: JsonFile = None,
    progress: Bar = True,
) -> None:
    """How hard distractors hurt a reader: the answer's log-likelihood over their share, against share 0."""
    from rag.eval.context_reading import whole_context
    from rag.eval.context_results import compare
    from rag.eval.distractors import SHARES, mixtures
    from rag.eval.reader import prompt_for
    from rag.eval.significance import bootstrap_interval

    collections = load_collections(files, None, None, None)
    shares = sorted({0.0, *(share or SHARES)})
    settings = load_settings(config)
    reading = _reader(reader, settings)

    def curve(mixture: Any) -> dict[str, float]:
        query = mixture.question.query.text
        contexts = [whole_context(mixture.documents(of), **_wording(settings)) for of in shares]
        prompts = [prompt_for(query, context) for context in contexts]
        values = reading.log_likelihood(prompts, [mixture.answer] * len(prompts))
        return {f"{of:g}": value for of, value in zip(shares, values, strict=True)}

    jobs: dict[tuple[str, str], Callable[[], Any]] = {}
    for name, questions in collections.items():
        for item in mixtures(questions, count)[:limit]:
            jobs[name, item.question.query.id] = partial(curve, item)
    what = {"distractors": count, "shares": shares}
    found = _run("distractors", jobs, collections, reading, settings, journal, progress, what)
    table = _table(f"log-likelihood per token of the answer, {count} irrelevant passages")
    for title in ("collection", "share hard", "questions", "mean (95 % interval)", "against 0", "p"):
        table.add_column(title, justify="left" if title == "collection" else "right", no_wrap=True)
    rows = []
    for name in collections:
        curves = {question: of for (collection, question), of in found.items() if collection == name}
        if not curves:
            continue
        values = {
            part: {question: of[part] for question, of in curves.items()} for part in (f"{of:g}" for of in shares)
        }
        against = compare(values, "0")
        for part, column in values.items():
            numbers = list(column.values())
            mean, interval = sum(numbers) / len(numbers), bootstrap_interval(numbers)
            compared = against.get(part)
            rows.append({"collection": name, "share": float(part), "questions": len(numbers), "mean": mean,
                         "interval": interval, "against": compared and asdict(compared)})  # fmt: skip
            difference = (f"{compared.difference:+.3f}", f"{compared.p_randomisation:.4f}") if compared else ("", "")
            table.add_row(name, part, str(len(numbers)), _mean(mean, interval), *difference)
    _finish(table, json_file, {
        "evaluation": "distractors", "reader": dict(reading.identity), **what, "rows": rows,
        "questions": _listed(found),
    })  # fmt: skip


def position(
    files: Files,
    tokens: Annotated[int, typer.Option(min=1, help="Length of a passage without its evidence, about.")] = 200,
    limit: Limit = None,
    config: Config = None,
    json_file: JsonFile = None,
) -> None:
    """Position bias of the embedder: cosine of question and passage with the evidence first, in the middle, last."""
    from rag.eval.position_bias import measure
    from rag.resources import Resources

    collections = load_collections(files, None, None, limit)
    settings = load_settings(config)
    embedder = Resources(settings).embedder()
    table = _table(f"{settings.embedder}: cosine by place of the evidence, passages of {tokens} tokens (95 % interval)")
    rows = []
    for name, questions in collections.items():
        found = measure(questions, embedder, embedder.token_counts, tokens=tokens)
        rows.append({"collection": name, **asdict(found)})
        if not table.columns:
            for title in ("collection", "questions", *(f"{place:.0%}" for place in found.places), "first - last", "p"):
                table.add_column(title, justify="left" if title == "collection" else "right", no_wrap=True)
        means = (_mean(*of) for of in zip(found.means, found.intervals, strict=True))
        difference = (f"{found.first_last:+.3f}", f"{found.p_randomisation:.4f}")
        table.add_row(name, str(found.questions), *means, *difference)
    _finish(table, json_file, {"evaluation": "position", "embedder": settings.embedder, "tokens": tokens, "rows": rows})


def _reader(name: str, settings: Settings) -> LocalReader:
    from rag.eval.reader import LocalReader
    from rag.resources import resolve_device

    return LocalReader(name, device=resolve_device(settings.device), threads=settings.threads)


def _wording(settings: Settings) -> dict[str, str]:
    return {"template": settings.context_template, "separator": settings.context_separator}


def _run(
    evaluation: str,
    jobs: dict[tuple[str, str], Callable[[], Any]],
    collections: dict[str, Any],
    reader: LocalReader,
    settings: Settings,
    journal: Path | None,
    progress: bool,
    what: dict[str, Any] | None = None,
) -> dict[tuple[str, str], Any]:
    """Do what is not done yet, question by question."""
    from rag.errors import InputError
    from rag.eval.context import digest
    from rag.eval.progress import progress_bar
    from rag.eval.record_log import record_log

    if not jobs:
        raise InputError("no question of these files can be used")
    data = {name: [digest(item) for item in questions] for name, questions in collections.items()}
    header = {"evaluation": evaluation, "reader": dict(reader.identity), **_wording(settings), **(what or {})}
    found: dict[tuple[str, str], Any] = {}
    with (
        record_log(journal, {**header, "data": data}) as (records, write),
        progress_bar(progress, len(jobs)) as advance,
    ):
        done = {(item["collection"], item["question"]): item["result"] for item in records}
        for (name, question), job in jobs.items():
            if (name, question) not in done:
                done[name, question] = job()
                write({"collection": name, "question": question, "result": done[name, question]})
            found[name, question] = done[name, question]
            advance(name)
    return found


def _listed(found: dict[tuple[str, str], Any]) -> list[dict[str, Any]]:
    return [{"collection": name, "question": question, "result": of} for (name, question), of in found.items()]


def _mean(value: float, interval: Interval | Iterable[float]) -> str:
    low, high = interval
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def _table(title: str) -> Table:
    from rich.table import Table

    return Table(title=title, title_justify="left", box=None)


def _finish(table: Table, path: Path | None, record: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console() if Console().is_terminal else Console(width=150)
    console.print(table)
    if path:
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _utility(question: Question, texts: Sequence[Document], reading: LocalReader, settings: Settings) -> list[Any]:
    from rag.eval.utility import utilities

    return [asdict(of) for of in utilities(question, texts, reading.log_likelihood, **_wording(settings))]
