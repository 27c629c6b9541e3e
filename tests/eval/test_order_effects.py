from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rag.compressors.ordering import Interleave, Ranked, Reversed
from rag.errors import ArtefactError, InputError
from rag.eval.collections import Question
from rag.eval.order_effects import Case, cases, effects, read_cases, reading_context
from rag.types import Document, Query, ScoredDocument, ranked

CONTEXT = reading_context("[{number}] {title}\n{text}", "\n\n")


def question(number: int, others: int = 4) -> Question:
    gold = Document(f"{number}-gold", f"The answer is word{number}.", "Gold")
    return Question(
        Query(f"Question {number}?", str(number)),
        (f"word{number}",),
        (*(Document(f"{number}-{i}", f"Nothing in {number} {i}.") for i in range(others)), gold),
        frozenset({gold.id}),
    )


QUESTIONS = [question(number) for number in range(40)]


def rank(query: Query, documents: Sequence[Document]) -> list[ScoredDocument]:
    """Gold first, the others by id."""
    by_id = sorted(documents, key=lambda item: item.id)
    return ranked(by_id, [float(item.id == f"{query.id}-gold") for item in by_id])


def recent(prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
    """A reader that knows best what stands near the question."""
    return [-(len(prompt) - prompt.index(answer)) / 100 for prompt, answer in zip(prompts, answers, strict=True)]


def blind(prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
    """A reader whose likelihoods differ with the order, but not because of the place of anything."""
    return [random.Random(prompt + answer).gauss(-2, 1) for prompt, answer in zip(prompts, answers, strict=True)]


def run(reader: Callable[[Sequence[str], Sequence[str]], list[float]], **options: object):
    orderings = {"ranked": Ranked(), "reversed": Reversed(), "interleave": Interleave()}
    return read_cases(cases(QUESTIONS, 5), reader, rank, orderings, CONTEXT, **options)  # type: ignore[arg-type]


def test_a_reader_with_recency_shows_it() -> None:
    found = effects(run(recent))
    assert [item.name for item in found.places] == ["1", "2", "3", "4", "5"]
    differences = [item.difference for item in found.places]
    assert differences == sorted(differences)
    assert sum(differences) == pytest.approx(0, abs=1e-9)
    assert (found.places[0].verdict, found.places[-1].verdict) == ("worse", "better")
    verdicts = {item.name: item.verdict for item in found.orderings}
    assert verdicts == {"ranked": "worse", "reversed": "better", "interleave": "worse"}
    assert found.summary == "better than random order: reversed (40 questions)"
    assert found.shuffle_spread > 0


def test_a_reader_that_does_not_care_shows_no_difference() -> None:
    found = effects(run(blind))
    assert {item.verdict for item in (*found.orderings, *found.places)} == {"no difference shown"}
    assert found.summary == "no ordering was shown to be better than random order (40 questions)"
    assert all(item.interval.low < 0 < item.interval.high for item in found.orderings)
    assert all(item.p_holm >= item.p_randomisation for item in found.orderings)


def test_gold_stands_at_every_place_once_and_equal_orders_are_read_once() -> None:
    prompts: list[str] = []

    def reader(given: Sequence[str], answers: Sequence[str]) -> list[float]:
        prompts.extend(given)
        return recent(given, answers)

    (case,) = cases(QUESTIONS[:1], 5)
    read_cases([case], reader, rank, {"ranked": Ranked(), "again": Ranked()}, CONTEXT, shuffles=2)
    assert len(prompts) == len(set(prompts))
    assert [next(i for i, d in enumerate(case.at(place)) if d is case.gold) for place in range(5)] == [0, 1, 2, 3, 4]
    assert len({frozenset(item.id for item in case.at(place)) for place in range(5)}) == 1


def test_cases_take_the_document_that_holds_the_answer_and_fill_up_with_strangers() -> None:
    second = Document("0-second", "It is called word0 here.")
    bridge = Document("0-bridge", "A bridge to the answer.")
    two_hops = Question(
        Query("Question 0?", "0"), ("nowhere", "word0"), (bridge, second), frozenset({bridge.id, second.id})
    )
    unanswered = Question(Query("q", "x"), ("absent",), (Document("x", "text"),), frozenset({"x"}))
    made = cases([two_hops, unanswered, question(1, others=9)], 5)
    assert [(case.query.id, case.answer, case.gold.id) for case in made] == [
        ("0", "word0", "0-second"),
        ("1", "word1", "1-gold"),
    ]
    assert {bridge.id} < {item.id for item in made[0].others}
    assert [len(case.others) for case in made] == [4, 4]
    assert all("word0" not in item.text for item in made[0].others)
    assert made == cases([two_hops, unanswered, question(1, others=9)], 5)
    with pytest.raises(InputError, match="20 documents were asked for, the file has 13"):
        cases([two_hops, unanswered, question(1, others=9)], 20)
    with pytest.raises(InputError, match="at least 2, given 1"):
        cases(QUESTIONS, 1)


def test_an_interrupted_run_goes_on_and_another_one_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    whole = run(recent, journal=journal)
    lines = journal.read_text().splitlines(keepends=True)
    assert len(lines) == 41
    journal.write_text("".join(lines[:11]) + lines[11][:20])
    asked: list[str] = []

    def reader(prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
        asked.extend(answers)
        return recent(prompts, answers)

    assert run(reader, journal=journal) == whole
    assert set(asked) == {f"word{number}" for number in range(10, 40)}
    with pytest.raises(ArtefactError, match="shuffles"):
        run(recent, journal=journal, shuffles=2)


def test_no_question_and_no_random_order_are_errors() -> None:
    with pytest.raises(InputError, match="at least one question"):
        effects([])
    with pytest.raises(InputError, match="shuffles must be at least 1"):
        run(recent, shuffles=0)


def test_a_case_knows_its_data() -> None:
    (case,) = cases(QUESTIONS[:1], 5)
    other = Case(case.query, case.answer, case.gold, case.others[::-1])
    assert case.digest() != other.digest()
    assert json.dumps(case.digest())
