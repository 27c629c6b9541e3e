"""Collections that do not lie in one folder: a user's own files, and names of the ir_datasets catalogue."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from rag.errors import InputError, shown
from rag.eval.collections import Collection, assemble, load_beir, read_document, read_lines, read_query
from rag.eval.runs import is_json, open_text, read_json, read_qrels, readable
from rag.types import Document, Query

T = TypeVar("T")
IR_DATASETS = "ir_datasets:"
SELF_RETRIEVING = ("arguana", "quora")
"""Collections whose queries are documents of the corpus, by what their names hold: each would find itself first."""
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def load_collection(
    source: str | None = None,
    split: str = "test",
    *,
    corpus: str | None = None,
    queries: str | None = None,
    qrels: str | None = None,
) -> Collection:
    """Read a collection from wherever it lies.

    Args:
        source: a BEIR folder or zip, or ``ir_datasets:NAME``; None where the three files are given.
        split: which judgements of a BEIR folder.
        corpus, queries, qrels: files of a user's own (see `load_files`). With a BEIR folder, ``queries`` and ``qrels``
            are files inside it that stand in for the usual ones, and ``corpus`` is not accepted.

    Raises:
        InputError: a file is missing or malformed (names file and line), or the parts are not one of these choices.
        DuplicateIdsError: two documents carry the same id.
    """
    if source is None:
        if corpus is None or queries is None or qrels is None:
            given = ", ".join(
                name for name, of in (("corpus", corpus), ("queries", queries), ("qrels", qrels)) if of is not None
            )
            raise InputError(
                f"given {given or 'no collection'}; accepted: a BEIR folder or zip, {IR_DATASETS}NAME, or all of "
                "--corpus, --queries and --qrels"
            )
        return load_files(Path(corpus), Path(queries), Path(qrels))
    if corpus is not None:
        raise InputError(f"given both {shown(source)} and a corpus file; accepted: one of them")
    if source.startswith(IR_DATASETS):
        if queries is not None or qrels is not None:
            raise InputError(f"{source} brings its own queries and judgements; --queries and --qrels are not accepted")
        from rag.eval.ir_datasets_source import load_named

        return load_named(source.removeprefix(IR_DATASETS))
    return load_beir(source, split, queries=queries, qrels=qrels)


def load_files(corpus: Path, queries: Path, qrels: Path) -> Collection:
    """Read a collection from three files, each of which may be gzipped (``.gz``).

    ============  =======================================================================================
    corpus        ``.jsonl``: ``{"_id", "text", "title"?, "metadata"?}`` a line; ``.csv`` and ``.tsv``: the
                  same columns, named by a header line (``id`` or ``_id``)
    queries       the same with ``_id`` and ``text``; ``.json``: ``{id: text}``; TREC topics (``<top>``);
                  ``.tsv`` also without a header: id, tab, text
    judgements    TREC, BEIR or JSON (see `rag.eval.runs.read_qrels`)
    ============  =======================================================================================

    The collection is called after the corpus file.

    Raises:
        InputError: a file is missing, of another kind, or a line is malformed (names file and line).
        DuplicateIdsError: two documents carry the same id.
    """
    for path in (corpus, queries, qrels):
        if not path.is_file():
            raise InputError(f"{path}: no such file")
    name = corpus.name.removesuffix(".gz")
    return assemble(name.removesuffix(Path(name).suffix), _documents(corpus), _queries(queries), read_qrels(qrels))


def retrieves_itself(name: str) -> bool:
    """Whether a collection is known for queries that are documents of its corpus."""
    return any(part in name.casefold() for part in SELF_RETRIEVING)


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _documents(path: Path) -> Iterator[Document]:
    if _suffix(path) == ".jsonl":
        return read_lines(path, read_document)
    if _suffix(path) in _DELIMITERS:
        return _rows(path, read_document, ("text",))
    raise InputError(f"{path}: a corpus is .jsonl, .csv or .tsv, gzip too (.gz)")


def _queries(path: Path) -> Iterator[Query]:
    if is_json(path):
        return _json_queries(path)
    suffix = _suffix(path)
    if suffix == ".jsonl":
        return read_lines(path, read_query)
    if suffix == ".tsv" and not _has_header(path):
        return _plain_queries(path)
    if suffix in _DELIMITERS:
        return _rows(path, read_query, ("text",))
    with open_text(path) as file, readable(path):
        text = file.read()
    if "<top>" in text:
        return _topics(path, text)
    raise InputError(f"{path}: queries are .jsonl, .json, .csv, .tsv or TREC topics (<top>), gzip too (.gz)")


def _has_header(path: Path) -> bool:
    with open_text(path) as file, readable(path):
        columns = file.readline().rstrip("\r\n").split("\t")
    return "text" in columns and bool({"id", "_id"} & set(columns))


def _rows(path: Path, parse: Callable[[Mapping[str, Any]], T], required: tuple[str, ...]) -> Iterator[T]:
    """One parsed value per row under a header line; errors name the line that its row ends on."""
    csv.field_size_limit(2**31 - 1)  # a text may be longer than the module's 131,072 characters
    with open_text(path) as file, readable(path):
        # Tab separated files quote nothing, by custom; in the others a quoted field may hold line ends.
        quoting: Literal[0, 3] = csv.QUOTE_NONE if _suffix(path) == ".tsv" else csv.QUOTE_MINIMAL
        reader = csv.DictReader(file, delimiter=_DELIMITERS[_suffix(path)], quoting=quoting, strict=True)
        try:
            columns = list(reader.fieldnames or ())
            identity = next((key for key in ("_id", "id") if key in columns), None)
            if identity is None or not set(required) <= set(columns):
                wanted = ", ".join(("id", *required))
                raise InputError(f"expected a header line with {wanted}, given {', '.join(columns) or 'nothing'}")
            for row in reader:
                if None in row or None in row.values():
                    raise InputError(f"expected {len(columns)} fields")
                yield parse({**row, "_id": row[identity], "metadata": None})
        except (csv.Error, InputError) as error:
            raise InputError(f"{path}, line {reader.reader.line_num or 1}: {error}") from None


def _plain_queries(path: Path) -> Iterator[Query]:
    with open_text(path) as file, readable(path):
        for number, line in enumerate(file, start=1):
            if line.strip():
                name, tab, text = line.rstrip("\r\n").partition("\t")
                try:
                    if not (name and tab):
                        raise InputError("expected id, tab, text")
                    yield Query(text, name)
                except InputError as error:
                    raise InputError(f"{path}, line {number}: {error}") from None


def _json_queries(path: Path) -> Iterator[Query]:
    table = read_json(path)
    if not isinstance(table, dict):
        raise InputError(f"{path}: expected one JSON object {{id: text}}")
    for name, text in table.items():
        try:
            yield Query(text, name)
        except InputError as error:
            raise InputError(f"{path}, query {shown(name)}: {error}") from None


def _topics(path: Path, text: str) -> Iterator[Query]:
    """TREC topics: ``<top> <num> Number: 301 <title> ... <desc> ... </top>``; the title is the query."""
    for found in re.finditer(r"<top>(.*?)(?:</top>|\Z)", text, re.DOTALL):
        line = text.count("\n", 0, found.start()) + 1
        number = re.search(r"<num>\s*(?:Number:)?\s*([^\s<]+)", found[1])
        title = re.search(r"<title>\s*(?:Topic:)?\s*([^<]+)", found[1])
        if not (number and title):
            raise InputError(f"{path}, line {line}: a topic needs <num> and <title>")
        try:
            yield Query(" ".join(title[1].split()), number[1])
        except InputError as error:
            raise InputError(f"{path}, line {line}: {error}") from None
