"""The figures of the benchmarks as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

Rows = Sequence[Mapping[str, Any]]
Columns = Mapping[str, tuple[str, str]]
"""Heading of a column to the figure's name and its format: ``flag`` is yes or nothing."""

SIZES: Columns = {
    "passages": ("passages", "d"),
    "tokens": ("tokens", "d"),
    "ICR": ("published_s", ".3g"),
    "cold": ("cold_s", ".3g"),
    "warm": ("warm_s", ".3g"),
    "ICR/cold": ("published_over_cold", ".1f"),
    "ICR/warm": ("published_over_warm", ".1f"),
    "cache": ("cache_mib", ".1f"),
    "resident": ("resident_mib", ".1f"),
    "noisy": ("noisy", "flag"),
}
BATCHES: Columns = {
    "queries per pass": ("queries", "d"),
    "one list: s/query": ("one_list_s_per_query", ".4f"),
    "own lists: s/query": ("own_lists_s_per_query", ".4f"),
}
MEMORY: Columns = {
    "passages": ("passages", "d"),
    "tokens": ("tokens", "d"),
    "budget": ("budget_mib", ".0f"),
    "list": ("list_mib", ".0f"),
    "model": ("model_mib", ".0f"),
    "resident": ("resident_mib", ".0f"),
    "peak": ("peak_mib", ".0f"),
    "excess": ("excess_mib", ".0f"),
    "peak excess": ("peak_excess_mib", ".0f"),
    "imports": ("imports_mib", ".0f"),
    "within 300": ("within", "flag"),
}
QUALITY: Columns = {
    "cache": ("precision", "s"),
    "nDCG@10": ("ndcg", ".4f"),
    "loss": ("ndcg_loss", "+.4f"),
    "heads alone": ("ndcg_heads", ".4f"),
    "loss ": ("ndcg_heads_loss", "+.4f"),
    "score error": ("score_error", ".4f"),
    "attention error": ("attention_error", ".4f"),
    "bytes/token": ("token_bytes", ".0f"),
}
RERANKERS: Columns = {
    "method": ("system", "s"),
    "cold s": ("cold_s", ".3g"),
    "least": ("cold_least_s", ".3g"),
    "most": ("cold_most_s", ".3g"),
    "ratio": ("cold_ratio", ".2f"),
    "warm s": ("warm_s", ".3g"),
    "least ": ("warm_least_s", ".3g"),
    "most ": ("warm_most_s", ".3g"),
    "ratio ": ("warm_ratio", ".2f"),
}
CHECKS: Columns = {
    "path": ("path", "s"),
    "largest error": ("error", ".2g"),
    "accepted": ("accepted", ".2g"),
    "Kendall's tau": ("agreement", ".3f"),
    "right": ("right", "flag"),
}


def table(title: str, columns: Columns, rows: Rows) -> Table:
    """One row per figure set; what is None is a dash."""
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in columns:
        made.add_column(heading.strip(), justify="right", no_wrap=True)
    for row in rows:
        made.add_row(*(_cell(row[name], form) for name, form in columns.values()))
    return made


def growth_line(exponents: Mapping[str, float], least: int = 25) -> str:
    """The growth exponents as a sentence."""
    grown = ", ".join(f"{name} ~ N^{value:.2f}" for name, value in exponents.items())
    return f"growth with the number of passages, from {least} on: {grown}"


def _cell(value: Any, form: str) -> str:
    if value is None:
        return "-"
    if form == "flag":
        return "yes" if value else ""
    return format(value, form)
