"""Dense and fused retrieval with the embedded model."""

from __future__ import annotations

import pytest

from rag.models import ResolvedModel
from rag.models.embedder import Embedder
from rag.retrievers import BM25, Dense, Fused
from rag.types import Document, Query

DOCUMENTS = [
    Document("tide", "The sea reaches its highest level twice a day."),
    Document("bread", "Flour, yeast and salt are all it takes to bake a loaf."),
    Document("long", "The village has a church and a school. " * 60 + "The ferry to the island costs nine euros."),
]
QUERY = Query("What is the fare of the boat?")


@pytest.fixture(scope="module")
def embedder(minilm: ResolvedModel) -> Embedder:
    return Embedder(minilm.name)


def test_meaning_and_the_tail_of_a_long_document_are_found(embedder):
    [boat], [flood] = (
        Dense(embedder).index(DOCUMENTS).retrieve([query], k=3) for query in (QUERY, Query("when is high water"))
    )
    assert boat[0].document.id == "long"
    assert flood[0].document.id == "tide"
    assert all(-1 <= found.score <= 1 for found in boat + flood)


def test_fused_default_keeps_what_each_member_said(embedder):
    [found] = Fused(embedder).index(DOCUMENTS).retrieve([QUERY], k=3)
    [lexical] = BM25().index(DOCUMENTS).retrieve([QUERY], k=3)
    [dense] = Dense(embedder).index(DOCUMENTS).retrieve([QUERY], k=3)
    for member, results in (("bm25", lexical), ("dense", dense)):
        assert {one.document.id: one.trace[member] for one in found} == {one.document.id: one.score for one in results}
