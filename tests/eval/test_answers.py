from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.errors import InputError
from rag.eval.answers import exact_match, f1, findable, normalise_answer


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Eiffel Tower!", "eiffel tower"),
        ("  an   apple,\ta day ", "apple day"),
        ("U.S.A.", "usa"),
        ("theatre", "theatre"),
        ("Alû – demon", "alû – demon"),
        ("A", ""),
    ],
)
def test_normalised_as_in_squads_evaluation(text, normal):
    assert normalise_answer(text) == normal


def test_the_best_accepted_answer_counts():
    assert exact_match("the Stanley Hall.", ["G. Stanley Hall", "Stanley Hall"]) == 1
    assert exact_match("Stanley", ["G. Stanley Hall", "Stanley Hall"]) == 0
    # "stanley": precision 1, recall 1/2 of the shorter answer.
    assert f1("Stanley", ["G. Stanley Hall", "Stanley Hall"]) == pytest.approx(2 / 3)
    # Words count as often as they stand there.
    assert f1("new new york", ["new york"]) == pytest.approx(0.8)
    assert f1("Paris", ["London"]) == 0
    assert (f1("the", ["a"]), f1("the", ["London"])) == (1, 0)
    with pytest.raises(InputError, match="no accepted answer"):
        f1("Paris", [])


@given(st.text(), st.text())
def test_f1_is_symmetric_and_1_where_answers_match(one, other):
    assert f1(one, [other]) == f1(other, [one])
    assert 0 <= f1(one, [other]) <= 1
    if exact_match(one, [other]):
        assert f1(one, [other]) == 1


def test_an_answer_is_found_as_whole_words_only():
    texts = ["He came to the party, with a bottle of U.S. rum.", "Art is long."]
    assert findable(["art"], texts[:1]) == ()
    assert findable(["art"], texts) == ("art",)
    assert findable(["bottle of the US rum", "gin"], texts) == ("bottle of the US rum",)
    # Across the gap of two kept pieces there is no answer.
    assert findable(["party bottle"], ["the party … bottle"]) == ()


def test_yes_no_and_nothing_are_never_found():
    assert findable(["yes", "No", "The", ""], ["Yes, no, the end."]) == ()
