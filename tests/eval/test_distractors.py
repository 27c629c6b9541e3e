from __future__ import annotations

from itertools import pairwise

import pytest

from rag.errors import InputError
from rag.eval.collections import Question
from rag.eval.distractors import mixtures
from rag.types import Document, Query

TOPICS = ("harbour", "lamp", "bread", "tide", "boat")


def question(number: int, topic: str) -> Question:
    """Gold, four distractors of the topic (one names it twice) and one that happens to hold the answer."""
    documents = (
        Document(f"{topic}-gold", f"The {topic} is Zorro{number} red."),
        *(Document(f"{topic}-{i}", f"A {topic} number {i}." + f" The {topic}." * (i == 3)) for i in range(4)),
        Document(f"{topic}-leak", f"Zorro{number} stands near the {topic}."),
        Document(f"{topic}-empty", ""),
    )
    return Question(
        Query(f"What is the {topic}?", f"q{number}"), (f"Zorro{number}",), documents, frozenset({f"{topic}-gold"})
    )


QUESTIONS = [question(number, topic) for number, topic in enumerate(TOPICS)]


def test_hard_and_easy_ones_hold_no_answer():
    made = mixtures(QUESTIONS, 3)
    assert [item.question.query.id for item in made] == [f"q{i}" for i in range(5)]
    first = made[0]
    assert first.answer == "Zorro0"
    assert [item.id for item in first.needed] == ["harbour-gold"]
    assert first.hard[0].id == "harbour-3"
    assert len(first.hard) == len(first.easy) == 3
    assert all(item.id.startswith("harbour") for item in first.hard)
    assert not any(item.id.startswith("harbour") for item in first.easy)
    assert not any("Zorro0" in item.text for item in (*first.hard, *first.easy))


def test_a_share_only_exchanges_distractors():
    mixture = mixtures(QUESTIONS, 4)[1]
    lists = [mixture.documents(share) for share in (0, 0.25, 0.5, 0.75, 1)]
    hard = {item.id for item in mixture.hard}
    assert [sum(item.id in hard for item in items) for items in lists] == [0, 1, 2, 3, 4]
    for before, after in pairwise(lists):
        assert sum(one.id != other.id for one, other in zip(before, after, strict=True)) == 1
    assert {items.index(mixture.needed[0]) for items in lists} == {lists[0].index(mixture.needed[0])}
    assert lists == [mixture.documents(share) for share in (0, 0.25, 0.5, 0.75, 1)]
    with pytest.raises(InputError, match=r"from 0 to 1, given 1\.5"):
        mixture.documents(1.5)


def test_questions_that_cannot_be_used_are_left_out():
    no_answer = Question(Query("?", "q8"), ("yes",), QUESTIONS[0].documents, frozenset({"harbour-gold"}))
    assert [item.question.query.id for item in mixtures([*QUESTIONS[1:], no_answer], 3)] == ["q1", "q2", "q3", "q4"]
    assert mixtures(QUESTIONS, 5) == []
    assert mixtures(QUESTIONS[:1], 2) == []
    with pytest.raises(InputError, match="at least 1, given 0"):
        mixtures(QUESTIONS, 0)
