from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.assembly import (
    Fate,
    assemble,
    context_document,
    dropped,
    require_finite,
    scores_of,
    uncompressed,
    with_empty_last,
)
from rag.errors import ModelOutputError
from rag.types import CompressedDocument, Document, ScoredDocument, Span

DEFAULT = "[{number}] {title}\n{text}"


def entry(document: Document, rank: int = 1, score: float = 0.5, spans: tuple[Span, ...] | None = None):
    kept = uncompressed(document, 3) if spans is None else CompressedDocument(document, spans, (), 3, 1)
    return context_document(ScoredDocument(document, score, rank), kept, index=0, windows=1, scores={})


def test_default_template_with_and_without_title():
    documents = [entry(Document("a", "text a", "Title")), entry(Document("b", "text b"))]
    assert assemble(documents, DEFAULT, "\n\n") == "[1] Title\ntext a\n\n[2]\ntext b"


def test_empty_documents_are_left_out_and_do_not_take_a_number():
    documents = [entry(Document("e", " ")), entry(Document("b", "text b")), entry(Document("t", "", "only a title"))]
    assert assemble(documents, DEFAULT, "\n\n") == "[1]\ntext b\n\n[2] only a title\n"


def test_every_field_and_what_follows_the_text():
    template = "<{id} {rank} {score:.2f}>\n{text}\n</{id}>"
    assert assemble([entry(Document("a", "x"), 4, 0.257)], template, "") == "<a 4 0.26>\nx\n</a>"


@given(st.text(min_size=1).filter(str.strip), st.text())
def test_text_and_title_go_in_unchanged_whatever_they_hold(text, title):
    block = assemble([entry(Document("a", text, title))], "{title}|{text}|", "")
    assert block.endswith(f"|{text}|")


def test_only_kept_spans_reach_the_context():
    document = Document("a", "One. Two. Three.")
    assert assemble([entry(document, spans=(Span(0, 5), Span(10, 16)))], "{text}", "") == "One.  … Three."


@given(st.lists(st.floats(-5, 5), max_size=6), st.integers(0, 3))
def test_documents_without_text_are_never_scored_above_one_with_text(scores, empties):
    ranked = [ScoredDocument(Document(str(i), "x"), s, i + 1) for i, s in enumerate(sorted(scores, reverse=True))]
    whole = with_empty_last(ranked, [Document(f"e{i}", "") for i in range(empties)])
    assert [item.rank for item in whole] == list(range(1, len(scores) + empties + 1))
    assert [item.score for item in whole] == sorted((item.score for item in whole), reverse=True)


@given(
    st.integers(0, 6).flatmap(
        lambda n: st.tuples(st.permutations(range(n)), st.integers(0, n), st.integers(1, 7), st.sets(st.integers(0, 6)))
    )
)
def test_every_document_is_in_the_answer_or_dropped_with_the_stage_that_left_it_out(case):
    order, retrieved, top_n, compressed_away = case
    corpus = [Document(str(i), "x") for i in range(len(order))]
    ranked = tuple(ScoredDocument(corpus[i], 1 / rank, rank) for rank, i in enumerate(order[:retrieved], start=1))
    away = frozenset(str(i) for i in compressed_away)
    out = {item.id: item for item in dropped(corpus, Fate(ranked, top_n, away, "9 tokens"))}
    for place, i in enumerate(order):
        if place >= retrieved:
            assert out[str(i)].reason == "not_retrieved"
        elif place >= top_n:
            assert (out[str(i)].reason, out[str(i)].rank) == ("below_top_n", place + 1)
        elif str(i) in away:
            assert out[str(i)].reason == "compressed_away"
            assert "9 tokens" in out[str(i)].detail
        else:
            assert str(i) not in out
        assert str(i) not in out or out[str(i)].index == i


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_an_error_naming_stage_and_document(score):
    items = [ScoredDocument(Document("ok", "x"), 1.0, 1), ScoredDocument(Document("bad", "x"), score, 2)]
    with pytest.raises(ModelOutputError, match=r"reranker icr.*'bad'"):
        require_finite(items, "reranker icr")


def test_scores_are_plain_floats_by_stage_and_by_what_stages_noted():
    import numpy as np

    trace = {"bm25": np.float32(2.5), "rank": 3, "note": "text", "flag": True, "odd": math.nan}
    item = ScoredDocument(Document("a", "x"), 1.5, 1, trace)
    scores = scores_of({"retriever": item})
    assert scores == {"bm25": 2.5, "rank": 3.0, "retriever": 1.5}
    assert {type(value) for value in scores.values()} == {float}
