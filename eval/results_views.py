"""Records of evaluations and benchmarks as Markdown tables, one view per kind of record.

A view takes a record and options from the page's template, and gives the text that stands for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from rag.errors import InputError, shown
from rag.eval.bench_tables import RERANKERS, Columns
from rag.eval.collections import SYNTHETIC_NOTE
from rag.eval.report_record import baseline_of, measures_of
from rag.eval.results_experiments import breakeven, calibration, order_effects
from rag.eval.results_tables import Options, Record, cell, lines, p_value, table

View: TypeAlias = Callable[[Record, Options], str]

_SIZES: Columns = {
    "passages": ("passages", "d"),
    "tokens": ("tokens", ",d"),
    "published s": ("published_s", ".1f"),
    "cold s": ("cold_s", ".2f"),
    "warm s": ("warm_s", ".3f"),
    "published / cold": ("published_over_cold", ".1f"),
    "published / warm": ("published_over_warm", ".0f"),
    "cache MiB": ("cache_mib", ".0f"),
    "resident MiB": ("resident_mib", ",.0f"),
}
_BATCHES: Columns = {
    "queries in the pass": ("queries", "d"),
    "all over one list": ("one_list_s_per_query", ".3f"),
    "each over its own list": ("own_lists_s_per_query", ".3f"),
}
_MEMORY: Columns = {
    "passages": ("passages", "d"),
    "tokens": ("tokens", ",d"),
    "cache budget MiB": ("budget_mib", ",.0f"),
    "model MiB": ("model_mib", ",.0f"),
    "resident MiB": ("resident_mib", ",.0f"),
    "beside budget and model MiB": ("excess_mib", ",.0f"),
    "at most 300": ("within", "flag"),
}
_QUALITY: Columns = {
    "cache": ("precision", "s"),
    "nDCG@10": ("ndcg", ".4f"),
    "loss": ("ndcg_loss", "+.4f"),
    "bytes per token": ("token_bytes", ",.0f"),
}
_CHECKS: Columns = {
    "path": ("path", "s"),
    "largest error": ("error", ".2g"),
    "accepted": ("accepted", ".2g"),
    "right": ("right", "flag"),
}
_PEERS: Columns = {
    "peer": ("peer", "s"),
    "version": ("version", "s"),
    "index s": ("index_s", ".3g"),
    "queries s": ("queries_s", ".3g"),
    "index / ours": ("index_ratio", ".2f"),
    "queries / ours": ("queries_ratio", ".2f"),
    "top 10 shared": ("top10_overlap", ".3f"),
    "noisy": ("noisy", "flag"),
}
_COMPRESSING_PEERS: Columns = {
    "peer": ("peer", "s"),
    "version": ("version", "s"),
    "queries s": ("queries_s", ".3g"),
    "queries / ours": ("queries_ratio", ".2f"),
    "tokens kept": ("kept_share", ".1%"),
    "within budget": ("within", "d"),
    "noisy": ("noisy", "flag"),
}
_RETRIEVAL: Columns = {
    "retriever": ("retriever", "s"),
    "documents": ("documents", ",d"),
    "index s": ("index_s", ".3g"),
    "query s": ("query_s", ".3g"),
    "index MiB": ("index_mib", ".1f"),
    "noisy": ("noisy", "flag"),
}
_CONTEXT: Columns = {
    "kept": ("ratio", ".3f"),
    "recall": ("recall", ".3f"),
    "precision": ("precision", ".3f"),
    "retention": ("retention", ".3f"),
    "EM": ("exact_match", ".3f"),
    "F1": ("f1", ".3f"),
}


def kind_of(record: Any) -> str:
    """What a record is: ``retrieval``, ``context``, ``engine``, ...; ``unknown`` where it does not say."""
    if not isinstance(record, Mapping):
        return "unknown"
    said = record.get("evaluation") or record.get("benchmark")
    if isinstance(said, str):
        return f"bench {said}" if said == "retrieval" and "benchmark" in record else said
    return "retrieval" if "systems" in record and "queries" in record else "unknown"


def ranking(record: Record, options: Options) -> str:
    """Systems by measure, the first measure against the baseline.

    Options: ``heading`` of the first column, ``labels`` (system to what stands for it), ``systems`` (which, in order).
    """
    rows = _rows(record)
    measures = _measures(record, rows)
    baseline = options.get("baseline") or (baseline_of(record) if isinstance(record["systems"], list) else "bm25")
    first, labels = measures[0], options.get("labels", {})
    names = options.get("systems") or list(rows)
    if missing := [name for name in names if name not in rows]:
        raise InputError(f"the record has no system {shown(missing[0])}; it has: {', '.join(rows)}")
    called = options.get("baseline_label") or baseline
    heading = options.get("heading") or f"{record['collection']}, {record['queries']} queries"
    cells = []
    for name in names:
        row = rows[name]
        figures = [f"{row[measure]:{'.4f' if measure == first else '.3f'}}" for measure in measures]
        difference = row.get(f"{first} diff")
        compared = ["", ""] if difference is None else [f"{difference:+.3f}", p_value(row[f"{first} p"])]
        cells.append([str(labels.get(name, name)), *figures, *compared])
    note = f"Synthetic: {SYNTHETIC_NOTE}.\n\n" if record.get("synthetic") else ""
    return note + lines([heading, *measures, f"against {called}", "p"], cells)


def context(record: Record, options: Options) -> str:
    """A table per collection (option ``collection``: only that): systems by budget, recall against the baseline."""
    only = options.get("collection")
    names = [only] if only else list(dict.fromkeys(row["collection"] for row in record["rows"]))
    return "\n\n".join(_context_table(record, name, options) for name in names)


def _tables(*parts: tuple[str, str, Columns]) -> View:
    """A view of some lists of a record: title, dotted name of the list, columns. A list that is not there has none.

    Option ``part``: only the list of that name, without its title.
    """

    def view(record: Record, options: Options) -> str:
        only = options.get("part")
        if only is not None and only not in {name for _, name, _ in parts}:
            raise InputError(f"part {shown(only)}; accepted: {', '.join(name for _, name, _ in parts)}")
        made = []
        for title, name, columns in parts:
            rows = _at(record, name)
            if rows and only in (None, name):
                text = table(columns, rows, options.get("heading"))
                made.append(text if only or not title else f"{title}:\n\n{text}")
        return "\n\n".join(made)

    return view


def _at(record: Record, name: str) -> Sequence[Mapping[str, Any]]:
    value: Any = record
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value or ()


def _rows(record: Record) -> dict[str, Mapping[str, Any]]:
    """System to its figures, also of a record that was condensed by hand (``vs NAME``, ``p vs NAME``)."""
    systems = record["systems"]
    if isinstance(systems, list):
        return {row["system"]: row for row in systems}
    made: dict[str, Mapping[str, Any]] = {}
    for name, row in systems.items():
        first = next(iter(row))
        compared = {f"{first} diff": row["vs bm25"], f"{first} p": row["p vs bm25"]} if "vs bm25" in row else {}
        made[name] = {**row, **compared}
    return made


def _measures(record: Record, rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if isinstance(record["systems"], list):
        return measures_of(record)
    return [name for name in next(iter(rows.values())) if " " not in name]


def _context_table(record: Record, collection: str, options: Options) -> str:
    rows = sorted((row for row in record["rows"] if row["collection"] == collection), key=lambda row: row["budget"])
    if not rows:
        raise InputError(f"the record has no collection {shown(collection)}")
    labels = options.get("labels", {})
    columns = {head: of for head, of in _CONTEXT.items() if any(of[0] in row["means"] for row in rows)}
    measure = "recall" if any("recall" in row["means"] for row in rows) else "retention"
    heads = [f"{collection}, {rows[0]['questions']} questions", "budget", *columns]
    cells = []
    for row in rows:
        against = row["against"].get(measure)
        compared = [f"{against['difference']:+.3f}", p_value(against["p_randomisation"])] if against else ["", ""]
        figures = [cell(row["means"].get(name), form) for name, form in columns.values()]
        cells.append([str(labels.get(row["system"], row["system"])), f"{row['budget']:g}", *figures, *compared])
    return lines([*heads, f"{measure} against {record['baseline']}", "p"], cells)


VIEWS: Mapping[str, View] = {
    "retrieval": ranking,
    "context": context,
    "engine": _tables(
        ("", "sizes", _SIZES),
        ("Several queries in one pass, seconds per query", "batches", _BATCHES),
        ("Memory", "memory", _MEMORY),
        ("Cache precision", "quality.precisions", _QUALITY),
    ),
    "gpu": _tables(
        ("Against the CPU", "checks", _CHECKS),
        ("Seconds per query", "sizes", _SIZES),
        ("Several queries in one pass, seconds per query", "batches", _BATCHES),
    ),
    "peers": _tables(
        ("BM25", "rows.bm25", _PEERS),
        ("Rerankers", "rows.rerank", _PEERS),
        ("Compressors", "rows.compress", _COMPRESSING_PEERS),
    ),
    "breakeven": breakeven,
    "order-effects": order_effects,
    "calibration": calibration,
    "rerankers": _tables(("", "rows", RERANKERS)),
    "bench retrieval": _tables(("", "rows", _RETRIEVAL)),
}
"""By the kind of record."""
