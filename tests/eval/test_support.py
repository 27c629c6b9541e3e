from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.errors import InputError
from rag.eval.collections import Question, SupportingSentence, load_qa
from rag.eval.support import auc, find_supporting, label, separation, support
from rag.types import Document, Query, ScoredSentence, Span

TEXT = "One is here.  Two is longer than one. Three."
ONE, TWO, THREE = Span(0, 12), Span(14, 37), Span(38, 44)
DOCUMENTS = (Document("a", TEXT), Document("b", "Other words."), Document("c", "  "))


def labelled(*supporting: Span):
    return label(DOCUMENTS, {"a": supporting})


def test_sentences_are_labelled_by_overlap():
    assert [(item.document_id, item.span, item.supporting) for item in labelled(TWO)] == [
        ("a", ONE, False),
        ("a", TWO, True),
        ("a", THREE, False),
        ("b", Span(0, 12), False),
    ]
    # A supporting sentence that was cut in another way marks every sentence it shares a character with.
    assert [item.supporting for item in labelled(Span(36, 40))] == [False, True, True, False]
    # White space between two sentences belongs to neither.
    assert not any(item.supporting for item in labelled(Span(12, 14)))


def test_supporting_sentences_are_looked_up_and_lost_ones_counted():
    sentences = (SupportingSentence("a", " Three.\n"), SupportingSentence("b", "Three."), SupportingSentence("a", " "))
    found, lost = find_supporting(Question(Query("q"), (), DOCUMENTS, frozenset(), sentences))
    assert (found, lost) == ({"a": [THREE]}, 2)


def test_whole_sentences_and_characters_are_counted_apart():
    marked = labelled(ONE, TWO)
    whole = support(marked, {"a": [ONE, THREE]})
    assert (whole.recall, whole.precision) == (1 / 2, 1 / 2)
    assert whole.recall_weighted == pytest.approx(12 / 35)
    assert whole.precision_weighted == pytest.approx(12 / 18)
    part = support(marked, {"a": [Span(0, 11), Span(14, 37)]})
    assert (part.recall, part.precision) == (1 / 2, 1)
    assert part.recall_weighted == pytest.approx(34 / 35)
    # A sentence may be covered by two neighbouring pieces, and a document be kept whole.
    assert support(marked, {"a": [Span(0, 5), Span(5, 12)]}).recall == 1 / 2
    assert support(marked, {"a": [Span(0, 44)]}).recall == 1


def test_nothing_kept_and_nothing_supporting():
    nothing = support(labelled(TWO), {})
    assert (nothing.recall, nothing.precision, nothing.recall_weighted, nothing.precision_weighted) == (0, 0, 0, 0)
    assert support(labelled(), {"a": [ONE]}) is None


@given(st.lists(st.tuples(st.integers(0, 44), st.integers(0, 44)).map(sorted), max_size=4))
def test_shares_stay_between_0_and_1(pairs):
    spans, end = [], 0
    for start, stop in sorted(pairs):
        if max(start, end) < stop:
            spans.append(Span(max(start, end), stop))
            end = stop
    measured = support(labelled(ONE, THREE), {"a": spans})
    for value in (measured.recall, measured.precision, measured.recall_weighted, measured.precision_weighted):
        assert 0 <= value <= 1
    assert (measured.recall == 1) == (measured.recall_weighted == 1)
    assert measured.recall_weighted > 0 or measured.recall == 0


@settings(deadline=None)  # the first call imports scipy
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=12))
def test_auc_is_the_share_of_pairs_in_the_right_order(items):
    scores, positive = [float(score) for score, _ in items], [flag for _, flag in items]
    pairs = [(a, b) for a, one in zip(scores, positive, strict=True) if one
             for b, other in zip(scores, positive, strict=True) if not other]  # fmt: skip
    if not pairs:
        assert auc(scores, positive) is None
    else:
        assert auc(scores, positive) == pytest.approx(sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs))


def test_scores_of_other_units_are_brought_to_sentences():
    def unit(span: Span, score: float) -> ScoredSentence:
        return ScoredSentence(span, score, False, 1)

    marked = labelled(TWO)
    assert separation(marked, {"a": [unit(ONE, 0.1), unit(TWO, 0.9), unit(THREE, 0.2)]}) == 1
    # "b" has no score: it ranks last; the better half of TWO counts.
    halves = [unit(Span(0, 20), 0.5), unit(Span(20, 37), 0.7), unit(THREE, 0.9)]
    assert separation(marked, {"a": halves}) == pytest.approx(2 / 3)
    # Whole documents: TWO ties with its neighbours and beats "b".
    assert separation(marked, {"a": [unit(Span(0, 44), 1.0)], "b": [unit(Span(0, 12), 0.0)]}) == pytest.approx(2 / 3)
    assert separation(marked, {"a": []}) is None
    assert separation(labelled(), {"a": [unit(ONE, 0.1)]}) is None
    with pytest.raises(InputError, match="NaN"):
        auc([math.nan], [True])


def test_reasoning_steps_stand_for_supporting_sentences(tmp_path):
    steps = [
        {"answer": "Anna Holm", "paragraph_support_idx": 1},
        {"answer": "1871", "paragraph_support_idx": 0},
        {"answer": "x", "paragraph_support_idx": None},
    ]
    record = {
        "_id": "m1",
        "question": "When was the quay built by the founder's firm?",
        "answers": ["1871"],
        "documents": [
            {"_id": "a", "title": "", "text": "Gulls nest here. The quay was built in 1871.", "supporting": True},
            {"_id": "b", "title": "", "text": "It was founded by Anna Holm. She was born in 1840.", "supporting": True},
        ],
        "decomposition": steps,
    }
    file = tmp_path / "musique.jsonl"
    file.write_text(json.dumps(record) + "\n")
    found, lost = find_supporting(load_qa(file)[0])
    assert (found, lost) == ({"b": [Span(0, 28)], "a": [Span(17, 44)]}, 0)
    # Marked sentences go first.
    marked = {**record, "supporting_sentences": [{"doc_id": "a", "text": "Gulls nest here."}]}
    file.write_text(json.dumps(marked) + "\n")
    assert find_supporting(load_qa(file)[0])[0] == {"a": [Span(0, 16)]}
    steps[0]["paragraph_support_idx"] = 2
    file.write_text(json.dumps(record) + "\n")
    with pytest.raises(InputError, match="line 1: paragraph_support_idx must be from 0 to 1, given 2"):
        load_qa(file)
