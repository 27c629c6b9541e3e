"""Indices of corpora seen lately: none is built twice, and none is taken for another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rag.indexed import IndexedCorpora, _digest
from rag.retrievers.bm25 import BM25
from rag.types import Document, Query


class Counting(BM25):
    built = 0

    def _build(self, documents: tuple[Document, ...]) -> None:
        type(self).built += 1
        super()._build(documents)


def corpus(*texts: str) -> list[Document]:
    return [Document(str(i), text) for i, text in enumerate(texts)]


QUERY = Query("harbour")


def ids(found: Sequence[object]) -> list[str]:
    return [item.document.id for item in found]  # type: ignore[attr-defined]


def test_an_index_is_built_once_and_gives_the_documents_of_the_request() -> None:
    Counting.built = 0
    corpora = IndexedCorpora(Counting())
    documents = corpus("Boats are blue.", "The harbour is deep.")
    first = corpora.retrieve(QUERY, documents, 2)
    again = [replace(document, metadata={"page": 7}) for document in documents]
    second = corpora.retrieve(Query("boats"), again, 1)
    assert Counting.built == 1
    assert ids(first) == ["1", "0"]
    assert ids(second) == ["0"]
    assert second[0].document is again[0]
    assert ids(corpora.retrieve(QUERY, documents[::-1], 2)) == ["1", "0"]
    assert Counting.built == 2


def test_the_least_recently_used_goes_first_and_one_too_large_is_not_kept() -> None:
    Counting.built = 0
    corpora = IndexedCorpora(Counting(), kept_characters=40)
    small = corpus("The harbour.")
    for documents in (small, small, corpus("x " * 30), small, corpus("y " * 15), small):
        corpora.retrieve(QUERY, documents, 1)
    assert Counting.built == 4


@settings(max_examples=50)
@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=3, unique_by=lambda of: of[0]))
def test_a_digest_tells_every_two_corpora_apart(parts: list[tuple[str, str]]) -> None:
    documents = [Document(name or "-", text) for name, text in parts]
    moved = [Document(item.id, "", item.text) for item in documents]
    assert (_digest(documents) == _digest(moved)) == (documents == moved)
    assert _digest(documents) != _digest([*documents, Document("more", "")])
