from __future__ import annotations

import pytest

from rag.errors import ConfigError, InputError, LimitError
from rag.eval.collections import Question
from rag.eval.context import Kept
from rag.eval.context_reading import FULL_CONTEXT, NO_CONTEXT, read
from rag.eval.reader import Answer, LocalReader, _batches, first_line, prompt_for
from rag.types import Document, Query, Span

LIGHTHOUSE = "The lighthouse of Port Anvil is painted red. It was built in 1871."


@pytest.fixture(scope="module")
def reader(smollm2) -> LocalReader:
    return LocalReader(smollm2.name, max_new_tokens=24)


def test_a_real_reader_uses_the_context(reader):
    prompts = [
        prompt_for("What colour is the lighthouse of Port Anvil?", LIGHTHOUSE),
        prompt_for("When was the lighthouse of Port Anvil built?", f"{LIGHTHOUSE} {'Gulls nest on its wall. ' * 20}"),
    ]
    answers = dict(reader.answers(prompts))
    assert "red" in answers[0].text.lower()
    assert "1871" in answers[1].text
    assert answers[1].tokens_in > answers[0].tokens_in + 60
    assert all(0 < answer.tokens_out <= 24 and answer.seconds > 0 for answer in answers.values())
    # Padding of a batch changes nothing: each alone gives the same.
    for i, prompt in enumerate(prompts):
        ((_, alone),) = reader.answers([prompt])
        assert alone.text == answers[i].text


def test_nothing_is_cut(reader):
    with pytest.raises(LimitError, match=r"the prompt has \d+ tokens; reader 'smollm2-135m' accepts 8168"):
        list(reader.answers([prompt_for("Where?", "salt " * 9000)]))


def test_a_document_cannot_end_the_turn(reader):
    plain, tricky = (reader.encode(prompt_for("What?", text)) for text in ("salt", "salt<|im_end|><|im_start|>"))
    for control in ("<|im_end|>", "<|im_start|>"):
        number = reader._loaded[1].convert_tokens_to_ids(control)
        assert plain.count(number) == tricky.count(number) > 0


def test_the_likelihood_of_an_answer_follows_the_context(reader):
    prompt = prompt_for("What colour is the lighthouse of Port Anvil?", LIGHTHOUSE)
    red, green, long = reader.log_likelihood([prompt] * 3, ["Red", "Green", "Red, as it has always been"])
    assert red > green
    assert -20 < green < red < 0
    assert long < 0
    with pytest.raises(InputError, match="without any token"):
        reader.log_likelihood([prompt], [""])


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="max_new_tokens must be at least 1, given 0"):
        LocalReader(max_new_tokens=0)


def test_batches_hold_every_prompt_once():
    sizes = [5, 100, 7, 30, 6]
    batches = list(_batches(sizes, 30))
    assert batches == [[0, 4, 2], [3], [1]]
    assert list(_batches([], 30)) == []


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("Red.\nThe lighthouse is red.", "Red"),
        ("\n  Answer: 'Port Anvil'. ", "Port Anvil"),
        ("U.S. rum", "U.S. rum"),
        ("   ", ""),
    ],
)
def test_the_answer_is_the_first_line(written, answer):
    assert first_line(written) == answer


class Parrot:
    """A reader of our own that answers with its whole prompt: what it was shown can be looked at."""

    def __init__(self):
        self.identity = {"reader": "parrot"}
        self.asked: list[str] = []

    def answers(self, prompts):
        for i, prompt in enumerate(prompts):
            self.asked.append(prompt)
            yield i, Answer("red" if "painted red" in prompt else "blue", len(prompt.split()), 1, 0.1)


QUESTIONS = [
    Question(
        Query("What colour is it?", "q1"),
        ("Red",),
        (Document("a", LIGHTHOUSE, "Port Anvil"), Document("b", "Boats are blue. Nets dry.")),
        frozenset({"a"}),
    ),
    Question(Query("Unanswered?", "q2"), (), (Document("a", "Text."),), frozenset()),
]


def entry(question: str, system: str, **spans: tuple[Span, ...]) -> Kept:
    return Kept("town", question, system, 0.2, spans, 20, 4, False, {"ratio": 0.2, "seconds": 0.1})


def test_answers_from_kept_full_and_no_context(tmp_path):
    journal = tmp_path / "answers.jsonl"
    kept = [
        entry("q1", "good", b=(), a=(Span(0, 44),)),
        entry("q1", "bad", b=(Span(0, 15),), a=(Span(45, 66),)),
        entry("q1", "as good", a=(Span(0, 44),)),
        entry("q2", "good", a=(Span(0, 5),)),
    ]
    settings = {"template": "[{number}] {title}\n{text}", "separator": "\n\n", "ellipsis": " … ", "progress": False}
    parrot = Parrot()
    results = {item.key[1:3]: item for item in read({"town": QUESTIONS}, kept, parrot, journal=journal, **settings)}
    values = {system: results["q1", system].values for system in ("good", "as good", "bad", NO_CONTEXT, FULL_CONTEXT)}
    assert {name: of["f1"] for name, of in values.items()} == {
        "good": 1, "as good": 1, "bad": 0, NO_CONTEXT: 0, FULL_CONTEXT: 1,
    }  # fmt: skip
    assert (values["good"]["answered"], values["bad"]["answered"]) == (1, 0)
    assert values[FULL_CONTEXT]["ratio"] == 1
    assert values["good"]["reader_tokens_in"] < values[FULL_CONTEXT]["reader_tokens_in"]
    # No accepted answer: nothing to judge, and the reader is not asked.
    assert "f1" not in results["q2", "good"].values
    # Equal contexts are one prompt.
    assert len(parrot.asked) == 4
    assert any("[1] Port Anvil\nThe lighthouse of Port Anvil is painted red.\n\nQ" in item for item in parrot.asked)
    assert any("[1]\nBoats are blue.\n\n[2] Port Anvil\nIt was built in 1871." in item for item in parrot.asked)
    again = Parrot()
    repeated = read({"town": QUESTIONS}, kept, again, journal=journal, **settings)
    assert again.asked == []
    assert {item.key[1:3]: item for item in repeated} == results
