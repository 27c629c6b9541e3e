from __future__ import annotations

import pytest
from qa_files import write_qa

from rag.errors import InputError
from rag.eval.collections import Question, load_qa
from rag.eval.reader import LocalReader
from rag.eval.utility import utilities
from rag.types import Document, Query

WORDING = {"template": "[{number}] {title}\n{text}", "separator": "\n\n"}
OTHERS = [Document("cliff", "The cliff is made of chalk."), Document("empty", " ")]


def test_the_passage_that_answers_helps_a_real_reader(smollm2, tmp_path):
    question = load_qa(write_qa(tmp_path / "qa.jsonl"))[0]
    found = utilities(question, OTHERS, LocalReader(smollm2.name).log_likelihood, **WORDING)
    by_id = {item.document: item for item in found}
    assert {name: item.supporting for name, item in by_id.items()} == {"harbour": True, "lamp": False, "bread": False}
    gold = by_id["harbour"]
    assert gold.remove > 0.5
    assert gold.replace > 0.5
    assert gold.remove > max(by_id["lamp"].remove, by_id["bread"].remove)


def test_what_is_read_for_each_effect():
    """A likelihood of our own: how often the word "salt" stands in the prompt."""
    documents = (Document("a", "salt salt"), Document("b", "sand"))
    question = Question(Query("Where?", "q"), ("here", "there"), documents, frozenset("a"))
    asked: list[str] = []

    def count(prompts, answers):
        asked.extend(prompts)
        assert set(answers) == {"here"}
        return [float(prompt.count("salt")) for prompt in prompts]

    found = {item.document: item for item in utilities(question, OTHERS, count, **WORDING)}
    assert (found["a"].remove, found["a"].replace, found["a"].duplicate) == (2, 2, 2)
    assert (found["b"].remove, found["b"].replace, found["b"].duplicate) == (0, 0, 0)
    assert len(asked) == 1 + 3 * 2
    assert sum("chalk" in prompt for prompt in asked) == 2


def test_what_is_needed():
    likelihood = lambda prompts, _: [0.0] * len(prompts)  # noqa: E731
    question = Question(Query("Where?", "q7"), (), (Document("a", "x"),), frozenset())
    with pytest.raises(InputError, match=r"'q7': utility needs .* given 0, 1 and 1"):
        utilities(question, OTHERS, likelihood, **WORDING)
