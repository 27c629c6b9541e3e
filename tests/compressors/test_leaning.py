from __future__ import annotations

import numpy as np
import pytest

from rag.compressors.leaning import Lean, lend, on_headings, on_predecessors, openers
from rag.errors import ConfigError
from rag.sentences import sentences, trim
from rag.types import Span


def spans(text: str) -> list[Span]:
    return [trim(text, span) for span in sentences(text)]


@pytest.mark.parametrize(
    ("second", "leans"),
    [
        ("It is 14 m deep.", True),
        ("“This is deep,” he said.", True),
        ("- Their nets dry there.", True),
        ("Item 3 is deep.", False),
        ("Thistles grow.", False),
        ("14", False),
    ],
)
def test_a_sentence_that_opens_with_a_pronoun_leans_on_the_one_before(second: str, leans: bool) -> None:
    text = f"The harbour was dredged.\n{second}"
    assert on_predecessors(text, spans(text), openers("en-GB")) == ([Lean(1, 0)] if leans else [])


def test_the_first_sentence_leans_on_nothing() -> None:
    text = "It is deep. He said so."
    assert on_predecessors(text, spans(text), openers("en")) == [Lean(1, 0)]


def test_other_languages_take_words_or_are_refused() -> None:
    text = "Der Hafen wurde ausgebaggert. Er ist tief."
    assert on_predecessors(text, spans(text), openers("de", ("Er", "sie"))) == [Lean(1, 0)]
    with pytest.raises(ConfigError, match="language 'de'; known: en"):
        openers("de")


def test_sentences_lean_on_the_nearest_heading_above() -> None:
    text = "Intro. Here.\n\n# Port\nDeep. Old.\n\nTown\n----\n- Small.\n\n```\n# no heading\n```\n## Empty\n"
    pieces = [text[start:end] for start, end in spans(text)]
    expected = ["Intro.", "Here.", "# Port", "Deep.", "Old.", "Town\n----", "- Small.", "```\n# no heading\n```"]
    assert pieces == [*expected, "## Empty"]
    assert on_headings(text, spans(text)) == [Lean(3, 2), Lean(4, 2), Lean(6, 5), Lean(7, 5)]
    assert on_headings("No heading.", spans("No heading.")) == []


def test_lending_is_one_step_and_never_lowers() -> None:
    scores = np.array([5.0, 1.0, 2.0, 3.0])
    lent = lend(scores, [Lean(1, 0), Lean(2, 1), Lean(3, 2)])
    assert lent.tolist() == [5.0, 2.0, 3.0, 3.0]
    assert scores.tolist() == [5.0, 1.0, 2.0, 3.0]
    assert lend(np.array([0.0, 2.0, 7.0]), [Lean(1, 0), Lean(2, 0)]).tolist() == [7.0, 2.0, 7.0]
