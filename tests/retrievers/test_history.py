"""Earlier turns count alike for every retriever, and as the engine reads them."""

from __future__ import annotations

import pytest

from rag.retrievers import BM25, Dense, Fused, RankBM25
from rag.types import Query

TURNS = Query("And how often does it turn?", history=("Where is the lamp?", "In the lighthouse."))
SAID = Query("Where is the lamp? In the lighthouse. And how often does it turn?")


@pytest.mark.parametrize("name", ["bm25", "rank-bm25", "dense", "fused"])
def test_turns_and_question_are_one_text(name, embedder, corpus):
    made = {"bm25": BM25, "rank-bm25": RankBM25, "dense": lambda: Dense(embedder), "fused": lambda: Fused(embedder)}
    retriever = made[name]().index(corpus)
    with_turns, in_one, alone = retriever.retrieve([TURNS, SAID, Query(TURNS.text)], len(corpus))
    assert with_turns == in_one
    assert with_turns[0].document.id == "lamp"
    assert [item.score for item in with_turns] != [item.score for item in alone]


def test_a_query_without_turns_is_its_text():
    assert Query("q").full_text == "q"
    assert TURNS.full_text == SAID.text
