"""Figures as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from rag.eval.bench_tables import Columns

Record: TypeAlias = Mapping[str, Any]
Options: TypeAlias = Mapping[str, Any]
"""Of a view, from the page's template."""

_LEAST_P = 0.0001


def table(columns: Columns, rows: Iterable[Mapping[str, Any]], heading: str | None = None) -> str:
    """A Markdown table; what is None or missing is a dash. ``heading`` stands in for the first column's."""
    heads = list(columns)
    if heading is not None:
        heads[0] = heading
    return lines(heads, ([cell(row.get(name), form) for name, form in columns.values()] for row in rows))


def lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of texts."""
    return (
        "\n".join(
            "| " + " | ".join(text.replace("|", "\\|") for text in row) + " |"
            for row in (heads, ["---"] * len(heads), *rows)
        )
        .replace("|  |", "| |")
        .replace("|  |", "| |")
    )


def cell(value: Any, form: str) -> str:
    """A figure in its format; a dash where there is none."""
    if form == "flag":
        return "yes" if value else ""
    return "-" if value is None else format(value, form)


def p_value(p: float) -> str:
    """A p value of at most four decimals and two digits."""
    return f"< {_LEAST_P}" if p < _LEAST_P else f"{round(p, 4):.2g}"
