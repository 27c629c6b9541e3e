"""The record of a retrieval evaluation: plain JSON values, from which every report and every comparison is made.

``systems`` holds one flat row of figures per system (`rag.eval.retrieval.Results.table`), ``questions`` every query
with the value of each measure and the best documents of each system, each with its grade (None: not judged).
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

from rag.errors import InputError
from rag.eval.collections import Collection
from rag.eval.latency import Latency
from rag.eval.retrieval import Results, fingerprint
from rag.eval.runs import open_text, read_json

Record: TypeAlias = dict[str, Any]

SHOWN_DOCUMENTS = 10
"""How many documents of each ranking the record holds."""
_PACKAGES = ("rag-context", "torch", "transformers", "sentence-transformers", "bm25s", "ir-measures", "numpy")
_TITLE_CHARACTERS = 100
_DIGITS = 6


def make_record(
    results: Results,
    collection: Collection,
    *,
    k: int,
    remove_self: bool = False,
    identities: Mapping[str, Any] | None = None,
    engines: Sequence[Mapping[str, Any]] = (),
    timings: Mapping[str, Mapping[str, Latency]] | None = None,
    tokens: Mapping[str, Mapping[str, float]] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Record:
    """Everything that is known about an evaluation, as JSON values.

    ``extra`` are further top-level values. What a list or a reranker took is in ``timings``: the looked-up lists of
    `Results` say nothing about time and are left out.
    """
    rows = [{name: value for name, value in row.items() if name not in {"p50 s", "p95 s"}} for row in results.table()]
    questions = [_question(query.id, query.text, results, collection) for query in collection.queries]
    named = {document for question in questions for ranked in question["rankings"].values() for document, _ in ranked}
    return {
        "evaluation": "retrieval",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "collection": collection.name,
        "synthetic": collection.synthetic,
        "warnings": list(collection.warnings),
        "data": fingerprint(collection),
        "documents": len(collection.documents),
        "queries": len(collection.queries),
        "k": k,
        "remove_self": remove_self,
        "measures": list(results.measures),
        "baseline": results.baseline,
        **dict(extra or {}),
        "engines": [dict(engine) for engine in engines],
        "identities": dict(identities or {}),
        "systems": rows,
        "seconds": {name: {kind: asdict(item) for kind, item in of.items()} for name, of in (timings or {}).items()},
        "tokens": {name: dict(of) for name, of in (tokens or {}).items()},
        "titles": {document.id: _title(document) for document in collection.documents if document.id in named},
        "questions": questions,
    }


def versions() -> dict[str, str]:
    """Versions of what the figures rest on; a package that is not installed is left out."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record as JSON (gzip where the name ends in .gz): one line per part and per item of its lists, so that
    versions of it can be compared.
    """
    parts = []
    for name, value in record.items():
        if isinstance(value, list) and value:
            items = ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in value)
            parts.append(f" {json.dumps(name)}: [\n  {items}\n ]")
        else:
            parts.append(f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    with open_text(path, "wt") as file:
        file.write("{\n" + ",\n".join(parts) + "\n}\n")


def read_record(path: Path) -> Record:
    """Read the record of a retrieval evaluation, also one made before records held every query.

    Raises:
        InputError: the file is missing, no JSON, or something else.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    value = read_json(path)
    if not isinstance(value, dict) or value.get("evaluation", "retrieval") != "retrieval":
        kind = value.get("evaluation") if isinstance(value, dict) else type(value).__name__
        raise InputError(f"{path} is no record of `rag eval retrieval`, it is {kind!r}")
    rows = value.get("systems")
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "system" in row for row in rows):
        raise InputError(f"{path} is no record of `rag eval retrieval`: it has no list of systems")
    return value


def systems_of(record: Mapping[str, Any]) -> list[str]:
    """Labels of the systems, in their order."""
    return [row["system"] for row in record["systems"]]


def measures_of(record: Mapping[str, Any]) -> list[str]:
    """The measures of a record, also of one that does not list them: the figures of a row that belong to no other."""
    if "measures" in record:
        return list(record["measures"])
    first = record["systems"][0] if record["systems"] else {}
    return [name for name, value in first.items() if isinstance(value, int | float) and " " not in name]


def baseline_of(record: Mapping[str, Any]) -> str:
    """The baseline's label: where the record does not say, the first system that is compared with none."""
    names = systems_of(record)
    rows = {row["system"]: row for row in record["systems"]}
    without = [name for name in names if not any(key.endswith(" diff") for key in rows[name])]
    return str(record.get("baseline") or next(iter(without or names), ""))


def _question(query: str, text: str, results: Results, collection: Collection) -> dict[str, Any]:
    grades = collection.qrels[query]
    return {
        "id": query,
        "text": text,
        "values": {
            name: {measured: round(of[query], _DIGITS) for measured, of in result.evaluation.per_query.items()}
            for name, result in results.systems.items()
        },
        "rankings": {
            name: [[document, grades.get(document)] for document, _ in result.run[query][:SHOWN_DOCUMENTS]]
            for name, result in results.systems.items()
        },
        "relevant": sum(grade > 0 for grade in grades.values()),
    }


def _title(document: Any) -> str:
    text = " ".join((document.title or document.text).split())
    return text if len(text) <= _TITLE_CHARACTERS else f"{text[: _TITLE_CHARACTERS - 1]}…"
