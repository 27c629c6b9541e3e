"""Retrieval from a corpus that lacks what answers."""

from __future__ import annotations

from rag.eval.without import without
from rag.retrievers import BM25, Fused
from rag.types import Document, Query

DOCUMENTS = [
    Document("deep", "The harbour is fourteen metres deep at high tide."),
    Document("ships", "Large ships enter the harbour at high tide."),
    Document("tide", "The tide is high twice a day."),
    Document("bread", "Rye bread keeps for a week."),
]
QUERIES = [Query("How deep is the harbour at high tide?", "q1"), Query("high tide", "q2")]
REMOVED = {"q1": frozenset({"deep"})}


def ids(found):
    return [item.document.id for item in found]


def test_what_is_removed_is_not_found_and_the_others_move_up():
    plain = BM25().index(DOCUMENTS)
    some = without(BM25(), REMOVED).index(DOCUMENTS)
    first, second = some.retrieve(QUERIES, 2)
    assert ids(first) == ids(plain.retrieve(QUERIES, 3)[0])[1:] == ["ships", "tide"]
    assert [item.rank for item in first] == [1, 2]
    assert ids(second) == ids(plain.retrieve(QUERIES, 2)[1])


def test_a_fused_list_shows_no_gap_where_the_document_was():
    members = {"bm25": {}, "rank-bm25": {}}
    some = without(Fused(members=members), REMOVED).index(DOCUMENTS)
    first, second = some.retrieve(QUERIES, 4)
    assert "deep" not in ids(first)
    assert len(first) == 3
    assert len(second) == 4
    for name in members:
        assert sorted(item.trace[f"{name}_rank"] for item in first) == [1, 2, 3]
