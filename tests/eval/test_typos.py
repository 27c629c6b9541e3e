from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.errors import InputError
from rag.eval.collections import Question
from rag.eval.typos import misspell, with_typos
from rag.types import Document, Query

QUESTION = "Who was the first president of the harbour association?"


def edit_distance(one: str, other: str) -> int:
    """Edits of single letters, a swap of neighbours counting once (optimal string alignment)."""
    rows = [[max(i, j) if not i or not j else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (one[i - 1] != other[j - 1]))
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


@given(st.integers(0, 4), st.text(max_size=3))
def test_so_many_edits_in_so_many_words(edits, seed):
    changed = misspell(QUESTION, edits, seed)
    pairs = list(zip(QUESTION.split(" "), changed.split(" "), strict=True))
    distances = [edit_distance(before, after) for before, after in pairs]
    assert sorted(distances, reverse=True)[:5] == [1] * edits + [0] * (5 - edits)
    assert all(before[0] == after[0] for before, after in pairs)
    assert changed == misspell(QUESTION, edits, seed)


@given(st.text(max_size=40), st.integers(0, 5))
def test_any_text_can_be_given(text, edits):
    changed = misspell(text, edits)
    assert len(changed.split(" ")) == len(text.split(" "))
    assert bool(changed.strip()) == bool(text.strip())


def test_few_long_words_and_seeds():
    assert misspell("Who is he?", 3) == "Who is he?"
    assert len({misspell(QUESTION, 1, str(seed)) for seed in range(20)}) > 5
    with pytest.raises(InputError, match="0 or more, given -1"):
        misspell("x", -1)


def test_only_the_query_of_a_question_changes():
    question = Question(Query(QUESTION, "q1", ("before",)), ("x",), (Document("d", "text"),), frozenset({"d"}))
    (changed,) = with_typos([question], 2)
    assert changed.query.text != QUESTION
    assert (changed.query.id, changed.query.history) == ("q1", ("before",))
    assert (changed.answers, changed.documents, changed.supporting) == (
        question.answers,
        question.documents,
        question.supporting,
    )
