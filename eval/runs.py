"""Runs and relevance judgements: the two tables every evaluation compares, and their files (TREC, BEIR, JSON).

A run maps a query id to ``(document id, score)`` pairs, best first. Ties: equal scores mean the order in which the
documents stand in the list. A file has no such order to trec_eval, which sorts by score (as a 32-bit float) and breaks
ties by document id, descending; `read_run` does the same. `break_ties` makes scores strictly decreasing, and everything
that leaves for a file or a measure goes through it, so that a run means the same in every tool.
"""

from __future__ import annotations

import gzip
import json
import logging
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeAlias, cast

from rag.errors import InputError, shown
from rag.types import ScoredDocument

Ranking: TypeAlias = list[tuple[str, float]]
Run: TypeAlias = dict[str, Ranking]
Qrels: TypeAlias = dict[str, dict[str, int]]

_log = logging.getLogger(__name__)


def ranking(documents: Sequence[ScoredDocument]) -> Ranking:
    """Ids and scores of ranked documents, in their order."""
    return [(scored.document.id, scored.score) for scored in documents]


def sort_ranking(pairs: Sequence[tuple[str, float]], query_id: str = "") -> Ranking:
    """Best score first; equal scores keep the order they came in.

    Raises:
        InputError: a score is not a finite number, or a document occurs twice.
    """
    seen: set[str] = set()
    for document_id, score in pairs:
        if not math.isfinite(score):
            raise InputError(f"query {query_id!r}, document {document_id!r}: score {score} is not a finite number")
        if document_id in seen:
            raise InputError(f"query {query_id!r}: document {document_id!r} is ranked twice")
        seen.add(document_id)
    return sorted(pairs, key=lambda pair: -pair[1])


def break_ties(ranking: Sequence[tuple[str, float]]) -> Ranking:
    """The same order with strictly decreasing scores, told apart even as 32-bit floats (which trec_eval keeps).

    A score that isn't below the one before it becomes the next smaller 32-bit float.

    Raises:
        InputError: a score below the range of 32-bit floats.
    """
    import numpy as np

    lowest, previous = np.float32(-np.inf), np.float32(np.inf)
    strict: Ranking = []
    for document_id, score in ranking:
        current = min(np.float32(score), np.nextafter(previous, lowest))
        if current == lowest:
            raise InputError(f"document {document_id!r}: score {score} is too low for a 32-bit float")
        strict.append((document_id, float(current)))
        previous = current
    return strict


def without_self(run: Mapping[str, Sequence[tuple[str, float]]]) -> Run:
    """A copy of a run without documents that carry their query's own id.

    For collections whose queries are documents of the corpus (ArguAna, Quora), where each would find itself first.
    """
    cleaned = {query: [pair for pair in pairs if pair[0] != query] for query, pairs in run.items()}
    removed = sum(len(run[query]) - len(pairs) for query, pairs in cleaned.items())
    if removed:
        _log.info("removed %d document(s) that carried their query's id", removed)
    return cleaned


def write_run(path: Path, run: Mapping[str, Sequence[tuple[str, float]]], tag: str = "rag") -> None:
    """Write a run in TREC form (``query Q0 document rank score tag``), or as JSON (``{query: {document: score}}``)
    where the name ends in .json; gzip where it then ends in .gz.

    Scores are written strictly decreasing (`break_ties`).

    Raises:
        InputError: an id or the tag is empty or holds white space, which the TREC form cannot carry; or as
            `sort_ranking`.
    """
    strict = {query_id: break_ties(sort_ranking(pairs, query_id)) for query_id, pairs in run.items()}
    if is_json(path):
        _write_json(path, {query_id: dict(pairs) for query_id, pairs in strict.items()})
        return
    _require_token(tag, "tag")
    lines: list[str] = []
    for query_id, pairs in strict.items():
        _require_token(query_id, "query id")
        for rank, (document_id, score) in enumerate(pairs, start=1):
            _require_token(document_id, "document id")
            lines.append(f"{query_id} Q0 {document_id} {rank} {score!r} {tag}\n")
    with open_text(path, "wt") as file:
        file.writelines(lines)


def read_run(path: Path) -> Run:
    """Read a run in the TREC form, or as JSON (see `write_run`) where the name says so; gzip too.

    It comes in trec_eval's order: by score (a 32-bit float), then document id, both descending. As in trec_eval, the
    rank column is ignored, and so is what follows the tag.

    Raises:
        InputError: a malformed line or score, named by file and line; a document ranked twice for a query.
    """
    pairs: dict[str, Ranking] = {}
    if is_json(path):
        for query_id, document_id, given in _json_cells(path, "{query: {document: score}}"):
            if isinstance(given, bool) or not isinstance(given, int | float):
                raise InputError(f"{path}, query {shown(query_id)}: score must be a number, given {shown(given)}")
            pairs.setdefault(query_id, []).append((document_id, float(given)))
    else:
        for number, fields in _fields(path, 6, "query Q0 document rank score tag", more=True):
            query_id, _, document_id, _, score = fields[:5]
            try:
                value = float(score)
            except ValueError:
                raise InputError(f"{path}, line {number}: score must be a number, given {score!r}") from None
            pairs.setdefault(query_id, []).append((document_id, value))
    return {query_id: _trec_order(sort_ranking(documents, query_id)) for query_id, documents in pairs.items()}


def _trec_order(ranking: Ranking) -> Ranking:
    import numpy as np

    by_id = sorted(ranking, key=lambda pair: pair[0].encode("utf-8"), reverse=True)
    return sorted(by_id, key=lambda pair: -np.float32(pair[1]))


def write_qrels(path: Path, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Write judgements in TREC form (``query 0 document grade``), or as JSON (``{query: {document: grade}}``) where the
    name ends in .json; gzip where it then ends in .gz.

    Raises:
        InputError: an id is empty or holds white space, which the TREC form cannot carry.
    """
    if is_json(path):
        _write_json(path, qrels)
        return
    lines: list[str] = []
    for query_id, grades in qrels.items():
        _require_token(query_id, "query id")
        for document_id, grade in grades.items():
            _require_token(document_id, "document id")
            lines.append(f"{query_id} 0 {document_id} {grade}\n")
    with open_text(path, "wt") as file:
        file.writelines(lines)


def read_qrels(path: Path) -> Qrels:
    """Read judgements in the TREC form, in BEIR's (tab separated ``query document grade``, under a header or not), or
    as JSON (see `write_qrels`) where the name says so; gzip too.

    Raises:
        InputError: a malformed line, a grade that is not a whole number or a pair judged twice with different
            grades, named by file and line.
    """
    qrels: Qrels = {}
    if is_json(path):
        for query_id, document_id, grade in _json_cells(path, "{query: {document: grade}}"):
            if isinstance(grade, bool) or not isinstance(grade, int):
                raise InputError(f"{path}, query {shown(query_id)}: grade must be a whole number, given {shown(grade)}")
            qrels.setdefault(query_id, {})[document_id] = grade
        return qrels
    for number, line in _lines(path):
        columns = line.rstrip("\r\n").split("\t")
        if len(columns) == 3:
            if number > 1 or columns[0] != "query-id":
                add_judgement(qrels, columns[0], columns[1], columns[2], f"{path}, line {number}")
            continue
        query_id, _, document_id, grade = _split(path, number, line, 4, "query 0 document grade")
        add_judgement(qrels, query_id, document_id, grade, f"{path}, line {number}")
    return qrels


def add_judgement(qrels: Qrels, query_id: str, document_id: str, grade: str, where: str) -> None:
    """Put one judgement, its grade still text, into ``qrels``; ``where`` names its source in errors."""
    try:
        value = int(grade)
    except ValueError:
        raise InputError(f"{where}: grade must be a whole number, given {grade!r}") from None
    known = qrels.setdefault(query_id, {}).setdefault(document_id, value)
    if known != value:
        raise InputError(
            f"{where}: query {query_id!r} and document {document_id!r} are judged both {known} and {value}"
        )


def open_text(path: Path, mode: str = "rt") -> TextIO:
    """Open a UTF-8 text file for reading or writing, through gzip where the name ends in .gz."""
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, mode, encoding="utf-8"))
    return cast(TextIO, open(path, mode, encoding="utf-8"))


@contextmanager
def readable(path: object) -> Iterator[None]:
    """Turn what the bytes of a file can do to its reader into an `InputError` that names the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start} of a block") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file: {error}") from None


def is_json(path: Path) -> bool:
    """Whether the name of a file says that it is one JSON value, gzipped or not."""
    return path.name.removesuffix(".gz").endswith(".json")


def read_json(path: Path) -> Any:
    """The JSON value in a file, gzip too. Raises `InputError` naming the file (and line) where it is none."""
    with open_text(path) as file, readable(path):
        try:
            return json.load(file)
        except UnicodeDecodeError:
            raise
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON: {error}") from None


def _json_cells(path: Path, form: str) -> Iterator[tuple[str, str, Any]]:
    table = read_json(path)
    if not isinstance(table, dict) or not all(isinstance(row, dict) for row in table.values()):
        raise InputError(f"{path}: expected one JSON object {form}")
    for query_id, row in table.items():
        for document_id, value in row.items():
            yield query_id, document_id, value


def _write_json(path: Path, value: object) -> None:
    with open_text(path, "wt") as file:
        json.dump(value, file)
        file.write("\n")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Line numbers and lines; blank lines are skipped."""
    with open_text(path) as file, readable(path):
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line


def _fields(path: Path, count: int, form: str, more: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and the ``count`` (or ``more``) fields of a file's lines; blank lines are skipped."""
    for number, line in _lines(path):
        yield number, _split(path, number, line, count, form, more)


def _split(path: Path, number: int, line: str, count: int, form: str, more: bool = False) -> list[str]:
    fields = line.split()
    if len(fields) < count or (len(fields) > count and not more):
        raise InputError(f"{path}, line {number}: expected {count} fields ({form}), given {len(fields)}")
    return fields


def _require_token(value: str, what: str) -> None:
    if value.split() != [value]:
        raise InputError(f"{what} {value!r} must be non-empty and without white space to be written in TREC form")
