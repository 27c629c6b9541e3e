"""Prompts for measuring a slot profile: a query and shuffled documents, some of which belong to it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rag.corpus import read_documents
from rag.errors import InputError
from rag.eval.collections import load_beir, load_qa
from rag.eval.runs import open_text
from rag.sentences import sentences
from rag.types import Document, Query


@dataclass(frozen=True, slots=True)
class AskedDocuments:
    """A query and the documents that belong to it."""

    query: Query
    documents: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class PromptSource:
    """Queries with their documents, and all documents, from which the rest of a prompt is filled up."""

    name: str
    asked: tuple[AskedDocuments, ...]

    def draw(self, documents: int, number: int, seed: int = 0) -> AskedDocuments:
        """Prompt ``number`` of those with so many documents: always the same one for the same arguments.

        A query at random with its own documents (as many as fit), filled up with other queries' documents at
        random, all of them shuffled.

        Raises:
            InputError: there are fewer documents in all.
        """
        corpus = {document.id: document for item in self.asked for document in item.documents}
        if len(corpus) < documents:
            raise InputError(f"{self.name}: prompts of {documents} documents, given {len(corpus)} with text")
        chance = random.Random(f"{seed}-{documents}-{number}")
        item = self.asked[chance.randrange(len(self.asked))]
        own = {document.id: document for document in item.documents}
        chosen = chance.sample(list(own.values()), min(documents, len(own)))
        others = [document for document in corpus.values() if document.id not in own]
        chosen += chance.sample(others, documents - len(chosen))
        chance.shuffle(chosen)
        return AskedDocuments(item.query, tuple(chosen))


def read_source(paths: Sequence[Path], split: str = "train", first_sentences: int | None = None) -> PromptSource:
    """Queries and documents from question files, BEIR collections, or plain documents.

    A ``.jsonl`` file whose first line has a ``question`` is read with `load_qa`, a folder or zip that holds a
    ``corpus.jsonl`` with `load_beir`, anything else with `read_documents`: then the query of a document is its
    title, or its first sentence where it has none. Documents without text are left out.

    Args:
        paths: files and folders.
        split: the judgements of BEIR collections.
        first_sentences: keep so many sentences of each document (shorter prompts are measured sooner); None: all.

    Raises:
        InputError: what the readers refuse, or no query has a document with text.
    """
    asked = [
        AskedDocuments(item.query, tuple(_cut(document, first_sentences) for document in filled))
        for path in paths
        for item in _read(path, split)
        if (filled := tuple(document for document in item.documents if not document.is_empty))
    ]
    name = ", ".join(path.parent.name if _is_qa(path) else path.name for path in paths)
    if not asked:
        raise InputError(f"{name}: no query has a document with text")
    return PromptSource(name, tuple(asked))


def _read(path: Path, split: str) -> Iterator[AskedDocuments]:
    if _is_qa(path):
        yield from (AskedDocuments(item.query, item.documents) for item in load_qa(path))
    elif path.suffix == ".zip" or any((path / f"corpus.jsonl{end}").exists() for end in ("", ".gz")):
        collection = load_beir(path, split)
        corpus = {document.id: document for document in collection.documents}
        for query in collection.queries:
            relevant = (name for name, grade in collection.qrels[query.id].items() if grade > 0)
            yield AskedDocuments(query, tuple(corpus[name] for name in relevant if name in corpus))
        yield from map(_about_itself, (document for document in collection.documents if not document.is_empty))
    else:
        yield from map(_about_itself, (document for document in read_documents([path]) if not document.is_empty))


def _about_itself(document: Document) -> AskedDocuments:
    text = document.title.strip()
    if not text:
        first = sentences(document.text)[0]
        text = document.text[first.start : first.end].strip()
    return AskedDocuments(Query(text), (document,))


def _cut(document: Document, count: int | None) -> Document:
    spans = sentences(document.text)
    if count is None or len(spans) <= count:
        return document
    return replace(document, text=document.text[: spans[count - 1].end].rstrip())


def _is_qa(path: Path) -> bool:
    if not path.is_file() or not path.name.endswith((".jsonl", ".jsonl.gz")):
        return False
    with open_text(path) as file:
        first = next((line for line in file if line.strip()), "")
    try:
        record = json.loads(first)
    except ValueError:
        return False
    return isinstance(record, dict) and "question" in record
