"""Lexical features of a list: what each column counts, and texts that have little to count."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.rerankers.lexical import LexicalFeatures, bm25, identifiers, lexical_features, longest_runs, ordered_within
from rag.types import Document
from rag.words import Tokeniser

TOKENISER = Tokeniser()
SHARES = ("coverage", "coverage_title", "idf_overlap", "bigrams", "ordered_pairs", "phrase", "identifiers")


def features(query: str, *documents: Document | str) -> LexicalFeatures:
    given = [d if isinstance(d, Document) else Document(str(i), d) for i, d in enumerate(documents)]
    return lexical_features(query, given, TOKENISER)


def test_the_document_with_the_query_s_words_in_order_leads_in_every_column():
    found = features(
        "harbour depth at high tide",
        "The lighthouse keeper bakes bread.",
        "High above the depths a tide of gulls crossed the harbour.",
        "The harbour depth at high tide is 14 m.",
    )
    for name in ("bm25_body", "coverage", "idf_overlap", "bigrams", "ordered_pairs", "phrase"):
        column = getattr(found, name)
        assert column[2] > column[0], name
    assert found.coverage.tolist() == [0, 1, 1]
    assert found.phrase.tolist() == [0, 0.25, 1]
    assert found.bigrams.tolist() == [0, 0, 1]


def test_a_rare_term_counts_more_than_a_common_one():
    common, rare = features("boats anchor", "boats sail", "the anchor rusts", "boats", "boats float").idf_overlap[:2]
    assert rare > common > 0


def test_a_phrase_does_not_reach_from_the_title_into_the_text():
    inside, across = Document("a", "the oil lamp"), Document("b", "lamp was lit", title="Whale oil")
    found = features("oil lamp", inside, across)
    assert found.phrase.tolist() == [1, 0.5]
    assert found.bigrams.tolist() == [1, 0]
    assert found.coverage_title.tolist() == [0, 0.5]
    assert found.title_length[0] == 0 < found.title_length[1]


def test_ordered_pairs_need_the_order_and_the_reach():
    pairs = {("oil", "lamp")}
    assert ordered_within(pairs, ["oil", "x", "lamp"], 2) == pairs
    assert ordered_within(pairs, ["oil", "x", "x", "lamp"], 2) == set()
    assert ordered_within(pairs, ["lamp", "oil"], 2) == set()
    assert ordered_within({("a", "a")}, ["a"], 2) == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("GPT-4 scored 86.4, in 2023.", {"gpt-4", "86.4", "2023"}),
        ("at 192.168.0.1:8484/v1", {"192.168.0.1:8484/v1"}),
        ("no number here", set()),
        ("2023年に14隻", {"2023", "14"}),
    ],
)
def test_identifiers_are_whatever_has_a_digit(text, found):
    assert identifiers(text) == found


def test_identifiers_are_found_exactly_and_are_missing_where_the_query_has_none():
    assert features("who won in 1911 with 14 boats", "In 1911 nobody.", "In 1912, 14 boats.").identifiers.tolist() == [
        0.5, 0.5,
    ]  # fmt: skip
    assert np.isnan(features("who won", "In 1911 nobody.").identifiers).all()


def test_chinese_and_japanese_have_terms():
    found = features("港の深さ", "この港の深さは十四メートルです。", "パンは夜明け前に焼かれる。")
    assert found.coverage[0] == 1 > found.coverage[1]
    assert found.phrase[0] == 1
    assert features("港口深度", "港口深度是十四米", "面包").bm25_body[0] > 0


def test_a_query_of_stop_words_has_no_shares_and_no_bm25():
    found = features("to be or not to be", "to be or not", "the harbour")
    assert all(np.isnan(getattr(found, name)).all() for name in SHARES)
    assert found.bm25_body.tolist() == [0, 0]


def test_one_document_and_none_at_all():
    one = features("harbour", "The harbour.")
    assert one.coverage.tolist() == [1]
    assert one.bm25_body.tolist() == [0]  # alone, it is neither better nor worse than the list
    assert [len(column) for column in features("harbour")] == [0] * len(LexicalFeatures._fields)
    assert bm25(["x"], [[], []]).tolist() == [0, 0]
    assert all(map(math.isnan, longest_runs([], [["a"]])))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40), st.lists(st.tuples(st.text(max_size=20), st.text(max_size=60)), min_size=1, max_size=5))
def test_any_text_gives_shares_in_range_and_the_same_row_wherever_the_document_stands(query, texts):
    documents = [Document(str(i), body, title) for i, (title, body) in enumerate(texts)]
    forth, back = (np.stack(features(query, *some), axis=1) for some in (documents, documents[::-1]))
    np.testing.assert_allclose(forth, back[::-1], atol=1e-5)
    assert np.isfinite(
        forth[:, [LexicalFeatures._fields.index(n) for n in ("bm25_body", "bm25_title", "length")]]
    ).all()
    shares = forth[:, [LexicalFeatures._fields.index(name) for name in SHARES]]
    assert ((shares >= 0) & (shares <= 1) | np.isnan(shares)).all()
