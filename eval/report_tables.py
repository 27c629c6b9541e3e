"""The figures of a retrieval record as tables of text: the same cells in the terminal, in Markdown and in HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag.eval.failures import Difference, Shown, differences
from rag.eval.report_record import baseline_of, measures_of, systems_of

LEAST_P = 0.0001
"""A smaller p value is shown as smaller than this."""
SECONDS = {"retrieval": "retrieval", "cold": "rerank, cold", "warm": "rerank, warm"}


@dataclass(frozen=True, slots=True)
class Table:
    """Headings and rows of text. The first column names the row; all others are figures."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def summary(record: Mapping[str, Any]) -> Table:
    """One row per system: every measure with its 95 % interval, and the first one against the baseline.

    The p values (paired randomisation test, paired t test) are adjusted over the systems (Holm).
    """
    measures, baseline = measures_of(record), baseline_of(record)
    first = measures[0]
    headings = ("system", *measures, f"{first} - {baseline}", "p (randomisation)", "p (t test)")
    return Table(headings, tuple(_summary_row(row, measures, first) for row in record["systems"]))


def against(record: Mapping[str, Any]) -> Table:
    """Every measure of every system against the baseline: difference, 95 % interval, p values (Holm)."""
    rows = [
        (row["system"], measure, *_against(row, measure))
        for row in record["systems"]
        for measure in measures_of(record)
        if f"{measure} diff" in row
    ]
    return Table(("system", "measure", "difference", "p (randomisation)", "p (t test)"), tuple(rows))


def cost(record: Mapping[str, Any]) -> Table:
    """Seconds per query of each part of a system, p50 and p95, and the tokens of the documents that it reads."""
    seconds, tokens = record.get("seconds", {}), record.get("tokens", {})
    parts = [part for part in SECONDS if any(part in of for of in seconds.values())]
    headings = ["system", *(f"{SECONDS[part]}: {point} s" for part in parts for point in ("p50", "p95"))]
    headings += ["tokens per query", "tokens p95"] if tokens else []
    rows = []
    for name in systems_of(record):
        if name in seconds or name in tokens:
            cells = [_seconds(seconds.get(name, {}), part, point) for part in parts for point in ("p50", "p95")]
            if tokens:
                cells += [f"{tokens[name][point]:,.0f}" if name in tokens else "" for point in ("mean", "p95")]
            rows.append((name, *cells))
    return Table(tuple(headings), tuple(rows))


def facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was measured on what, as label and text; a record that lacks a fact has no line for it."""
    known = {
        "collection": record.get("collection"),
        "judgements": record.get("qrels"),
        "queries": record.get("queries"),
        "documents": record.get("documents"),
        "documents per query": record.get("k"),
        "baseline": baseline_of(record),
        "left out": "documents that carry their query's own id" if record.get("remove_self") else None,
        "models": ", ".join(dict.fromkeys(f"{of['model']} ({of['fingerprint']})" for of in record.get("engines", ()))),
        "data": record.get("data"),
        "made": record.get("created"),
        "versions": ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items()),
    }
    return [(name, str(value)) for name, value in known.items() if value not in (None, "")]


def failures(
    record: Mapping[str, Any], count: int, measure: str | None = None
) -> list[tuple[str, list[Difference], list[Difference]]]:
    """The largest losses and gains of every system against the baseline, of the first measure where none is named."""
    baseline = baseline_of(record)
    measured = measure or measures_of(record)[0]
    return [
        (name, *differences(record, name, baseline, measured, count)) for name in systems_of(record) if name != baseline
    ]


def side_by_side(item: Difference) -> Table:
    """Both rankings of one query, place by place; a document's grade stands before its id where it is judged."""
    depth = max(len(item.ranking), len(item.baseline_ranking))

    def cell(ranking: Sequence[Shown], place: int) -> str:
        if place >= len(ranking):
            return ""
        shown = ranking[place]
        grade = "" if shown.grade is None else f"({shown.grade}) "
        return f"{grade}{shown.id}: {shown.title}" if shown.title else f"{grade}{shown.id}"

    rows = ((str(place + 1), cell(item.baseline_ranking, place), cell(item.ranking, place)) for place in range(depth))
    return Table(("rank", item.baseline, item.system), tuple(rows))


def markdown(record: Mapping[str, Any], count: int = 5) -> str:
    """The whole report as Markdown, with ``count`` losses and gains per system."""
    title = f"# {_escaped(str(record.get('collection', 'Evaluation')))}: retrieval\n"
    notes = [f"> {_escaped(note)}\n" for note in record.get("warnings", ())]
    lines = [f"- {name}: {_escaped(value)}" for name, value in facts(record)]
    parts = [title, *notes, "\n".join(lines) + "\n", "## Figures\n", markdown_table(summary(record))]
    parts += ["\nIntervals: 95 %, bootstrap over queries. p: two-sided, adjusted over the systems (Holm).\n"]
    if (compared := against(record)).rows:
        parts += ["\n## Against the baseline\n", markdown_table(compared, text_columns=2)]
    if (costs := cost(record)).rows:
        parts += ["\n## Time and tokens\n", markdown_table(costs)]
    for name, losses, gains in failures(record, count):
        for what, items in (("losses", losses), ("gains", gains)):
            if items:
                parts.append(f"\n## {_escaped(name)}: largest {what}\n")
                parts += [_markdown_difference(item) for item in items]
    return "\n".join(parts)


def markdown_table(table: Table, text_columns: int = 1) -> str:
    """A Markdown table, figures to the right."""
    rule = ["---" if place < text_columns else "---:" for place in range(len(table.headings))]
    return "\n".join(_markdown_row(row) for row in (table.headings, rule, *table.rows)) + "\n"


def as_csv(record: Mapping[str, Any]) -> str:
    """One line per system with every figure in full, times (seconds) and tokens too."""
    rows = []
    for row in record["systems"]:
        name = row["system"]
        times = {
            f"{part} {point} s": value
            for part, of in record.get("seconds", {}).get(name, {}).items()
            for point, value in of.items()
        }
        tokens = {f"tokens {point}": value for point, value in record.get("tokens", {}).get(name, {}).items()}
        rows.append(
            {"collection": record.get("collection"), "queries": record.get("queries"), **row, **times, **tokens}
        )
    columns = dict.fromkeys(column for row in rows for column in row)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def p_value(value: float) -> str:
    """A p value with four digits, or that it is smaller."""
    return f"< {LEAST_P}" if value < LEAST_P else f"{value:.4f}"


def _summary_row(row: Mapping[str, Any], measures: Iterable[str], first: str) -> tuple[str, ...]:
    return (row["system"], *(_with_interval(row, measure, ".4f") for measure in measures), *_against(row, first))


def _against(row: Mapping[str, Any], measure: str) -> tuple[str, str, str]:
    if f"{measure} diff" not in row:
        return "", "", ""
    p_t_test = row.get(f"{measure} p t")
    return (
        _with_interval(row, f"{measure} diff", "+.4f"),
        p_value(row[f"{measure} p"]),
        "" if p_t_test is None else p_value(p_t_test),
    )


def _with_interval(row: Mapping[str, Any], name: str, form: str) -> str:
    value = format(row[name], form)
    if f"{name} low" not in row:
        return value
    return f"{value} [{row[f'{name} low']:{form[:-3]}.3f}, {row[f'{name} high']:{form[:-3]}.3f}]"


def _seconds(of: Mapping[str, Mapping[str, float]], part: str, point: str) -> str:
    return f"{of[part][point]:.4f}" if part in of else ""


def _markdown_difference(item: Difference) -> str:
    values = f"{item.measure} {item.value:.4f}, {_escaped(item.baseline)} {item.baseline_value:.4f}"
    head = f"**{_escaped(item.query)}** {_escaped(item.text)}  \n{values} ({item.difference:+.4f})\n"
    return f"{head}\n{markdown_table(side_by_side(item), text_columns=3)}"


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line of a table."""
    line = " ".join(text.split())
    for character in "\\`*_|[]":
        line = line.replace(character, f"\\{character}")
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
