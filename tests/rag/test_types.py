from __future__ import annotations

import copy
import pickle
from dataclasses import asdict
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.errors import DuplicateIdsError, EmptyQueryError, InputError, NotTextError, shown
from rag.types import Document, Query, ScoredDocument, check_unique_ids, ranked


@pytest.mark.parametrize(
    "document",
    [Document("a", "x"), Document("a", "x", "t", {"k": [1]}), Document("a", "x", "", MappingProxyType({"k": 1}))],
)
def test_documents_can_be_copied_pickled_and_made_plain(document):
    for value in (document, ScoredDocument(document, 1.0, 1), *ranked([document], [0.5])):
        assert copy.deepcopy(value) == value
        assert pickle.loads(pickle.dumps(value)) == value
        assert asdict(value) == asdict(copy.copy(value))
    assert type(asdict(document)["metadata"]) is dict


def test_a_documents_metadata_is_its_own():
    mine = {"year": 1932}
    document = Document("a", "x", metadata=mine)
    mine["year"] = 0
    assert document.metadata == {"year": 1932}
    assert Document("a", "x").metadata is not Document("b", "x").metadata


@pytest.mark.parametrize("metadata", [None, [("a", 1)], "text"])
def test_metadata_that_is_not_a_mapping(metadata):
    with pytest.raises(InputError, match="metadata of document 'a' must be a mapping, got "):
        Document("a", "x", "", metadata)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"history": (5,)}, "turn 0 of the query history must be a string, got int"),
        ({"history": ("ok", None)}, "turn 1"),
        ({"history": "abc"}, "must be a tuple or list of strings, got str"),
        ({"history": {"a"}}, "got set"),
        ({"id": 7}, "query id must be a string, got int"),
        ({"text": b"q"}, "query must be a string, got bytes"),
    ],
)
def test_a_query_that_is_not_text(fields, part):
    with pytest.raises(NotTextError, match=part):
        Query(**{"text": "q", **fields})


def test_a_history_is_kept_as_a_tuple():
    turns = ["first", "second"]
    query = Query("q", history=turns)
    turns.append("third")
    assert query.history == ("first", "second")
    assert hash(query) == hash(Query("q", history=("first", "second")))


@given(
    st.recursive(
        st.one_of(st.text(max_size=300), st.binary(max_size=300), st.integers(), st.none()),
        lambda inner: st.lists(inner, max_size=60),
    ),
    st.integers(8, 100),
)
def test_what_is_shown_is_bounded_and_whole_where_it_fits(value, limit):
    text = shown(value, limit)
    assert len(text) <= limit
    assert text == repr(value) if len(repr(value)) <= limit else text.endswith("…")


def test_what_is_shown_of_a_number_that_cannot_be_written_out():
    assert shown(10**10_000) == "<int>"


LONG = "x" * 1_000_000


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (EmptyQueryError, lambda: Query(" " * 1_000_000)),
        (NotTextError, lambda: Query(LONG.encode())),
        (NotTextError, lambda: Document(LONG, 5)),
        (DuplicateIdsError, lambda: check_unique_ids([Document(LONG, "a"), Document(LONG, "b")])),
        (InputError, lambda: Document("a", "x", "", LONG)),
    ],
)
def test_an_error_does_not_grow_with_what_was_given(error, make):
    with pytest.raises(error) as caught:
        make()
    assert len(str(caught.value)) < 400
