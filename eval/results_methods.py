"""One table of every method on every collection, from the records of several evaluations and a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag.errors import InputError, shown
from rag.eval.report_record import measures_of
from rag.eval.results_tables import Options, Record, cell, lines

_SECONDS = {"cold_s": "ms cold", "warm_s": "ms warm"}
_SAME = ("collection", "queries", "k", "candidates")
_CLOSE = 0.001
"""By how much the candidates' first measure may differ between two records of a collection."""


def files_of(options: Options) -> list[str]:
    """The records that the table is made of.

    Raises:
        InputError: ``collections`` is not a mapping of headings to files.
    """
    collections = options.get("collections")
    if not isinstance(collections, Mapping) or not collections:
        raise InputError("the table of methods is YAML with `collections: {HEADING: FILE.json or [FILE.json, ...]}`")
    files = [name for given in collections.values() for name in _names(given)]
    return [*files, *([options["seconds"]] if "seconds" in options else [])]


def methods(records: Mapping[str, Record], options: Options) -> str:
    """A row per method, three measures per collection and milliseconds per query, cold and warm.

    Of a method that is in several records of a collection the first counts; what was not measured is a dash.

    Args:
        records: those of `files_of` that are there, by name.
        options: ``collections`` (heading of a collection to its record or records of `rag eval retrieval`),
            ``seconds`` (a record of `rag bench rerankers`), ``methods`` (which, in order; default: all, in the order
            of the records), ``labels`` (method to what stands for it).

    Raises:
        InputError: records of one heading that are of different evaluations, or a method that no record has.
    """
    by_collection: dict[str, dict[str, Record]] = {}
    measures: dict[str, None] = {}
    for heading, given in options["collections"].items():
        there = [records[name] for name in _names(given) if name in records]
        if there:
            by_collection[heading] = _merged(heading, there)
            measures |= dict.fromkeys(measures_of(there[0]))
    timed = records.get(options.get("seconds", ""), {}).get("rows", ())
    seconds = {row["system"]: row for row in timed}
    known = dict.fromkeys(name for rows in (*by_collection.values(), seconds) for name in rows)
    names = options.get("methods") or list(known)
    if missing := [name for name in names if name not in known]:
        raise InputError(f"no record has the method {shown(missing[0])}; they have: {', '.join(known)}")
    labels = options.get("labels", {})
    columns = [(heading, measure) for heading in by_collection for measure in measures]
    rows = []
    for name in names:
        figures = [cell(by_collection[heading].get(name, {}).get(measure), ".3f") for heading, measure in columns]
        costs = [_milliseconds(seconds.get(name, {}).get(part)) for part in _SECONDS] if seconds else []
        rows.append([str(labels.get(name, name)), *figures, *costs])
    heads = [f"{heading}: {measure}" for heading, measure in columns]
    return lines(["method", *heads, *(_SECONDS.values() if seconds else ())], rows)


def _merged(heading: str, records: Sequence[Record]) -> dict[str, Record]:
    """System to its figures: of the first record that has it.

    Raises:
        InputError: the records are not of the same queries and candidates.
    """
    first, *others = records
    measure = measures_of(first)[0]
    merged = {row["system"]: row for row in first["systems"]}
    for record in others:
        for name in _SAME:
            if record.get(name) != first.get(name):
                raise InputError(
                    f"{heading}: records of different evaluations, {name} {first.get(name)} and {record.get(name)}"
                )
        for row in record["systems"]:
            known = merged.setdefault(row["system"], row)
            if row["system"] == first.get("candidates") and abs(known[measure] - row[measure]) > _CLOSE:
                raise InputError(
                    f"{heading}: the records rerank different lists, {measure} of {row['system']} is "
                    f"{known[measure]:.4f} and {row[measure]:.4f}"
                )
    return merged


def _names(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{1000 * seconds:,.0f}" if seconds >= 0.01 else f"{1000 * seconds:.2g}"
