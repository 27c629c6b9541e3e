"""Test collections: documents, queries and judgements in the BEIR layout, and question-answer files."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeAlias, TypeVar

from rag.errors import InputError
from rag.eval.runs import Qrels, add_judgement, read_qrels, readable
from rag.sentences import sentences
from rag.types import Document, Query, check_unique_ids

_Place: TypeAlias = Path | zipfile.Path
T = TypeVar("T")

SYNTHETIC_FILE = "synthetic.json"
"""Marks a collection in the BEIR layout whose queries and judgements no person made."""
SYNTHETIC_NOTE = "its queries and judgements were made from the documents by a program, no person judged them"


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents, the queries that have judgements, and the judgements: ``qrels[query id][document id] = grade``.

    ``missing_documents`` counts judged document ids that the corpus lacks, ``missing_queries`` judged queries that the
    query file lacks (their judgements are left out), ``unjudged_queries`` queries left out for having no judgement.
    ``synthetic``: queries and judgements were made from the documents, by no person (see `rag.eval.synthetic`).
    """

    name: str
    documents: tuple[Document, ...]
    queries: tuple[Query, ...]
    qrels: Mapping[str, Mapping[str, int]]
    missing_documents: int = 0
    missing_queries: int = 0
    unjudged_queries: int = 0
    synthetic: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """What does not fit together in the files, for people; empty where everything does."""
        notes = (
            (self.missing_documents, "judged document(s) are not in the corpus: no system can find them"),
            (self.missing_queries, "judged query(ies) are not in the query file and are left out"),
        )
        made = (f"{self.name}: synthetic, {SYNTHETIC_NOTE}",) if self.synthetic else ()
        return (*made, *(f"{self.name}: {count} {note}" for count, note in notes if count))


@dataclass(frozen=True, slots=True)
class SupportingSentence:
    """A sentence that the answer rests on."""

    document_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its accepted answers and the documents it comes with.

    ``supporting`` holds the ids of the documents marked as needed for the answer.
    """

    query: Query
    answers: tuple[str, ...]
    documents: tuple[Document, ...]
    supporting: frozenset[str]
    supporting_sentences: tuple[SupportingSentence, ...] = ()


def load_beir(
    path: str | Path, split: str = "test", *, queries: str | None = None, qrels: str | None = None
) -> Collection:
    """Read a collection in the BEIR layout from a folder or a zip of one.

    Args:
        path: holds ``corpus.jsonl``, ``queries.jsonl`` (each may be gzipped) and ``qrels/<split>.tsv``.
        split: which judgements to use.
        queries: another file of queries, relative to ``path``.
        qrels: another file of judgements, relative to ``path``; ``split`` is then not used.

    Ids are strings, also where the file has numbers.

    Raises:
        InputError: a file is missing, or a line is malformed (names file and line).
        DuplicateIdsError: two documents carry the same id.
    """
    root = _root(Path(path))
    return assemble(
        Path(path).absolute().name.removesuffix(".zip"),
        read_lines(_find(root, "corpus.jsonl"), read_document),
        read_lines(_find(root, queries or "queries.jsonl"), read_query),
        _read_judgements(_find(root, qrels or f"qrels/{split}.tsv")),
        synthetic=(root / SYNTHETIC_FILE).exists(),
    )


def assemble(
    name: str,
    documents: Iterable[Document],
    queries: Iterable[Query],
    judgements: Qrels,
    *,
    synthetic: bool = False,
) -> Collection:
    """A collection of these parts: queries without a judgement are left out, and so are judgements without a query.

    Raises:
        InputError: two queries carry the same id.
        DuplicateIdsError: two documents carry the same id.
    """
    documents = tuple(documents)
    check_unique_ids(documents)
    asked = tuple(queries)
    known = {query.id for query in asked}
    if len(known) < len(asked):
        raise InputError(f"{name}: two queries carry the same id")
    corpus = {document.id for document in documents}
    return Collection(
        name=name,
        documents=documents,
        queries=tuple(query for query in asked if query.id in judgements),
        qrels={query: grades for query, grades in judgements.items() if query in known},
        missing_documents=len({document for grades in judgements.values() for document in grades} - corpus),
        missing_queries=len(judgements.keys() - known),
        unjudged_queries=len(known - judgements.keys()),
        synthetic=synthetic,
    )


def load_qa(path: str | Path) -> tuple[Question, ...]:
    """Read questions with answers and documents, one JSON object a line, gzip too.

    Form: ``{"_id", "question", "answers": [...], "documents": [{"_id", "title", "text", "supporting"}],
    "supporting_sentences"?: [{"doc_id", "text"}], "decomposition"?: [{"answer", "paragraph_support_idx"}]}``; other
    keys are ignored. Where there are no supporting sentences but reasoning steps (MuSiQue), the sentences of a step's
    document that hold the step's answer stand for them.

    Raises:
        InputError: the file is missing, or a line is malformed (names file and line).
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file}: no such file")
    return tuple(read_lines(file, _question))


def _root(path: Path) -> _Place:
    """The folder that holds the corpus: ``path``, the inside of a zip, or its one folder."""
    if path.is_dir():
        return path
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise InputError(f"{path}: expected a folder or a zip in the BEIR layout")
    root = zipfile.Path(path)
    for place in (root, *(inside for inside in root.iterdir() if inside.is_dir())):
        if (place / "corpus.jsonl").exists() or (place / "corpus.jsonl.gz").exists():
            return place
    raise InputError(f"{path}: no corpus.jsonl or corpus.jsonl.gz in the zip or in a folder directly in it")


def _find(root: _Place, name: str) -> _Place:
    for candidate in (root / name, root / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise InputError(f"{root}: neither {name} nor {name}.gz is there")


def _open(place: _Place) -> TextIO:
    raw: Any = place.open("rb")
    return io.TextIOWrapper(gzip.GzipFile(fileobj=raw) if place.name.endswith(".gz") else raw, encoding="utf-8")


def read_lines(place: _Place, parse: Callable[[Mapping[str, Any]], T]) -> Iterator[T]:
    """One parsed value per line of a JSON lines file; whatever is wrong with a line is one error that names it."""
    with _open(place) as file, readable(place):
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise InputError(f"expected a JSON object, given {type(record).__name__}")
                yield parse(record)
            except (ValueError, KeyError, TypeError) as error:
                problem = f"missing key {error}" if isinstance(error, KeyError) else str(error)
                raise InputError(f"{place}, line {number}: {problem}") from None


def _id(record: Mapping[str, Any], key: str = "_id") -> str:
    value = record[key]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"{key} must be a string or a whole number, given {value!r}")
    return str(value)


def read_document(record: Mapping[str, Any]) -> Document:
    """A document of one JSON object: ``_id``, ``text``, and perhaps ``title`` and ``metadata``."""
    metadata = record.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InputError(f"metadata must be an object, given {metadata!r}")
    return Document(_id(record), record["text"], record.get("title") or "", metadata)


def read_query(record: Mapping[str, Any]) -> Query:
    """A query of one JSON object: ``_id`` and ``text``."""
    return Query(record["text"], _id(record))


def _question(record: Mapping[str, Any]) -> Question:
    documents = tuple(read_document(item) for item in record["documents"])
    check_unique_ids(documents)
    answers = record["answers"]
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise InputError(f"answers must be a list of strings, given {answers!r}")
    marked = tuple(
        SupportingSentence(_id(item, "doc_id"), item["text"]) for item in record.get("supporting_sentences") or ()
    )
    return Question(
        query=Query(record["question"], _id(record)),
        answers=tuple(answers),
        documents=documents,
        supporting=frozenset(_id(item) for item in record["documents"] if item.get("supporting")),
        supporting_sentences=marked or tuple(_step_sentences(record.get("decomposition") or (), documents)),
    )


def _step_sentences(steps: Sequence[Mapping[str, Any]], documents: Sequence[Document]) -> Iterator[SupportingSentence]:
    for step in steps:
        place = step.get("paragraph_support_idx")
        if place is None:
            continue
        if not isinstance(place, int) or not 0 <= place < len(documents):
            raise InputError(f"paragraph_support_idx must be from 0 to {len(documents) - 1}, given {place!r}")
        document = documents[place]
        for start, end in sentences(document.text) if document.text else ():
            if step["answer"].casefold() in document.text[start:end].casefold():
                yield SupportingSentence(document.id, document.text[start:end])


def _read_judgements(place: _Place) -> Qrels:
    """BEIR's form, and every other one in a file that does not say ``.tsv``."""
    if isinstance(place, Path) and not place.name.removesuffix(".gz").endswith(".tsv"):
        return read_qrels(place)
    return _read_qrels(place)


def _read_qrels(place: _Place) -> Qrels:
    """Tab separated ``query-id corpus-id score``, with or without that header line."""
    qrels: Qrels = {}
    with _open(place) as file, readable(place):
        for number, row in enumerate(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), start=1):
            if not row or (number == 1 and row[0] == "query-id"):
                continue
            if len(row) != 3:
                form = "3 tab separated fields (query-id corpus-id score)"
                raise InputError(f"{place}, line {number}: expected {form}, given {len(row)}")
            add_judgement(qrels, row[0], row[1], row[2], f"{place}, line {number}")
    return qrels
