"""Test sets from documents alone: known-item queries, each judged by the document that it was made from.

A known-item query has one relevant document (Azzopardi, de Rijke and Balog 2007). Other documents may answer it as well
and nobody judged them, so such a set compares systems on a user's own text; its values are not those of a real one.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag.errors import InputError
from rag.eval.collections import SYNTHETIC_FILE, SYNTHETIC_NOTE
from rag.eval.progress import progress_bar
from rag.eval.reader import LocalReader
from rag.types import Document, Query
from rag.words import Tokeniser

KNOWN_ITEM = 2
"""Grade of the document that a query was made from, where others are judged by agreement."""
LEAST_WORDS = 2
"""A heading of fewer words, stop words not counted, is no query: "Introduction" fits any document."""
_PROMPT = (
    "Read this text and write one short question that it answers. Write the question alone.\n\n{text}\n\nQuestion:"
)
_PROMPT_CHARACTERS = 2000
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SyntheticSet:
    """Documents, queries, and judgements; ``made`` says how, ``notes`` what was left out.

    The document that a query was made from has grade 1, or `KNOWN_ITEM` once others were `pooled`.

    The documents' text lacks what their queries were taken from, so that a query is no copy of what it should find.
    """

    documents: tuple[Document, ...]
    queries: tuple[Query, ...]
    qrels: dict[str, dict[str, int]]
    made: dict[str, Any]
    notes: tuple[str, ...] = field(default=())


def from_headings(documents: Sequence[Document], count: int = 100, seed: int = 1) -> SyntheticSet:
    """Queries from titles and Markdown headings: a document's title, or the first of its headings that can be one.

    The title or the heading line is removed from the documents, from all of them: else each system would only have to
    find its words again. A heading that several documents share, or with fewer than `LEAST_WORDS` words, is none.

    Args:
        documents: with unique ids.
        count: most queries; which documents they are from is drawn with ``seed``.
        seed: of the draw.

    Raises:
        InputError: no document gives a query.
    """
    words = Tokeniser()
    headings = {document.id: _heading(document, words) for document in documents}
    shared: dict[str, int] = {}
    for heading in headings.values():
        if heading:
            shared[heading.casefold()] = shared.get(heading.casefold(), 0) + 1
    bare = [_without_heading(document, headings[document.id]) for document in documents]
    usable = [
        document.id
        for document in bare
        if (heading := headings[document.id]) and shared[heading.casefold()] == 1 and document.text.strip()
    ]
    drawn = _drawn(usable, count, seed, "a title or heading of its own with two words or more, and text below it")
    return _assembled(
        bare,
        [(name, headings[name] or "") for name in drawn],
        {"queries": "headings", "seed": seed},
        len(documents) - len(usable),
        "without a heading of its own that can be a query",
    )


def asked_by_model(
    documents: Sequence[Document],
    count: int = 100,
    seed: int = 1,
    *,
    model: str = "smollm2-135m",
    progress: bool = False,
) -> SyntheticSet:
    """Queries that a small decoder asks about documents (InPars, Bonifacio et al. 2022, without its few examples).

    The model reads a document's title and its first 2,000 characters; what it writes is kept if it ends in a question
    mark and shares a word with the document. A small model asks simple questions in the document's own words.

    Raises:
        InputError: no document gives a query.
        ModelNotFoundError: the model cannot be had.
    """
    usable = [document.id for document in documents if document.text.strip()]
    drawn = _drawn(usable, count, seed, "text")
    by_id = {document.id: document for document in documents}
    reader = LocalReader(model, max_new_tokens=32)
    prompts = [
        _PROMPT.format(text=f"{by_id[name].title}\n{by_id[name].text}".strip()[:_PROMPT_CHARACTERS]) for name in drawn
    ]
    asked: dict[str, str] = {}
    words = Tokeniser()
    with progress_bar(progress, len(drawn)) as advance:
        for position, answer in reader.answers(prompts):
            document = by_id[drawn[position]]
            question = answer.text.strip()
            known = set(words(f"{document.title} {document.text}"))
            if question.endswith("?") and known & set(words(question)):
                asked[document.id] = question
            advance("asking")
    if not asked:
        raise InputError(f"model {model!r} asked no usable question about {len(drawn)} document(s)")
    return _assembled(
        documents,
        [(name, asked[name]) for name in drawn if name in asked],
        {"queries": "llm", "seed": seed, **dict(reader.identity), "prompt": _PROMPT},
        len(drawn) - len(asked),
        "for which the model asked no usable question",
    )


def pooled(made: SyntheticSet, rankings: Mapping[str, Mapping[str, Sequence[str]]], depth: int) -> SyntheticSet:
    """Judge by agreement: a document that every system has among its best ``depth`` for a query gets grade 1.

    The query's own document gets `KNOWN_ITEM`. Agreement is no relevance: such judgements favour the systems that
    were asked and those like them.

    Args:
        made: a set of known items.
        rankings: system to query id to document ids, best first.
        depth: how far down systems have to agree.

    Raises:
        InputError: fewer than two systems, or ``depth`` below 1.
    """
    if len(rankings) < 2 or depth < 1:
        raise InputError(f"agreement needs two systems and a depth of 1 or more, given {len(rankings)} and {depth}")
    qrels: dict[str, dict[str, int]] = {}
    for query, known in made.qrels.items():
        agreed = set.intersection(*(set(ranking[query][:depth]) for ranking in rankings.values()))
        qrels[query] = dict.fromkeys(sorted(agreed), 1) | dict.fromkeys(known, KNOWN_ITEM)
    how = (
        f"grade {KNOWN_ITEM}: the document that the query was made from; grade 1: in the first {depth} of each of "
        f"{', '.join(rankings)}, judged by no person"
    )
    return replace(made, qrels=qrels, made={**made.made, "judgements": how})


def write_synthetic(folder: Path, made: SyntheticSet) -> None:
    """Write a set in the BEIR layout, marked as synthetic (``synthetic.json``), which `load_beir` and reports honour.

    Raises:
        InputError: the folder holds a collection already.
    """
    if (folder / "corpus.jsonl").exists():
        raise InputError(f"{folder} holds a collection already; give another folder")
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    corpus = [
        {"_id": item.id, "title": item.title, "text": item.text, "metadata": dict(item.metadata)}
        for item in made.documents
    ]
    _write_lines(folder / "corpus.jsonl", corpus)
    _write_lines(folder / "queries.jsonl", [{"_id": query.id, "text": query.text} for query in made.queries])
    rows = [f"{query}\t{document}\t{grade}" for query, of in made.qrels.items() for document, grade in of.items()]
    text = "\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n"
    (folder / "qrels" / "test.tsv").write_text(text, encoding="utf-8")
    mark = {
        "synthetic": True,
        "note": SYNTHETIC_NOTE,
        "judgements": "known item: the one document that the query was made from",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        **made.made,
    }
    (folder / SYNTHETIC_FILE).write_text(json.dumps(mark, indent=1) + "\n", encoding="utf-8")


def _heading(document: Document, words: Tokeniser) -> str | None:
    """What a document says it is about: its title, else its first Markdown heading, where it has words enough."""
    candidates = [document.title, *(match[2] for match in _HEADING.finditer(document.text))]
    return next((" ".join(text.split()) for text in candidates if len(set(words(text))) >= LEAST_WORDS), None)


def _without_heading(document: Document, heading: str | None) -> Document:
    if heading is None:
        return document
    lines = [
        line
        for line in document.text.split("\n")
        if not ((match := _HEADING.match(line)) and " ".join(match[2].split()) == heading)
    ]
    title = "" if " ".join(document.title.split()) == heading else document.title
    text = "\n".join(lines).lstrip("\n") if len(lines) < document.text.count("\n") + 1 else document.text
    return replace(document, title=title, text=text)


def _drawn(usable: Sequence[str], count: int, seed: int, need: str) -> list[str]:
    if not usable:
        raise InputError(f"no document gives a query; accepted: documents with {need}")
    if "\t" in "".join(usable) or "\n" in "".join(usable):
        raise InputError("a document id holds a tab or a line end, which the BEIR layout cannot carry")
    chosen = set(random.Random(seed).sample(sorted(usable), min(count, len(usable))))
    return [name for name in usable if name in chosen]


def _assembled(
    documents: Sequence[Document], asked: Sequence[tuple[str, str]], made: dict[str, Any], left_out: int, why: str
) -> SyntheticSet:
    queries = tuple(Query(text, f"synthetic-{number}") for number, (_, text) in enumerate(asked, start=1))
    qrels = {query.id: {name: 1} for query, (name, _) in zip(queries, asked, strict=True)}
    notes = (f"{left_out} document(s) {why}",) if left_out else ()
    return SyntheticSet(tuple(documents), queries, qrels, made, notes)


def _write_lines(path: Path, records: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(of, ensure_ascii=False) + "\n" for of in records), encoding="utf-8")
