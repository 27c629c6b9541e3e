"""The ReAttn reconstruction on small maps: one token per word, or pieces of words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from attention_maps import HEADS, word_map
from hypothesis import given
from hypothesis import strategies as st

from rag.rerankers.reattn_scores import reattn_scores, spread_of, word_weights
from rag.types import Document, Span
from rag.words import Tokeniser

WORDS = Tokeniser(stopwords=False, min_length=1)


def five(*texts, titles=("", "", "", "", "")):
    return [Document(str(i), text, title) for i, (text, title) in enumerate(zip(texts, titles, strict=True))]


CANDIDATES = five("harbours deep", "harbour wall", "the harbour", "harbour gulls", "Harbour, harbour boats")


def weights_of(documents, query):
    """The weight of each word of each document, without the title token that `word_map` starts a block with."""
    answer = word_map(documents, lambda _: 1.0)
    weights = word_weights(answer, query, WORDS).tolist()
    return [weights[block.tokens.start + 1 : block.tokens.end] for block in answer.blocks]


def test_a_query_word_of_every_candidate_counts_less_and_one_of_a_single_candidate_in_full():
    everywhere = 1 / (math.log(6 / 2) + 1)  # idf 1 over the idf of a word of one candidate
    found = weights_of(CANDIDATES, "How deep is the harbour?")
    assert found[0] == pytest.approx([everywhere, 1.0])
    assert found[1] == pytest.approx([everywhere, 1.0])
    assert found[4] == pytest.approx([everywhere, everywhere, 1.0])


def test_other_words_keep_their_weight_however_common():
    assert weights_of(CANDIDATES, "deep wall") == [[1.0] * len(d.text.split()) for d in CANDIDATES]


def test_a_word_of_a_title_counts_for_its_document():
    titles = ("deep", "deep", "", "", "")
    one, two = (weights_of(five(*(d.text for d in CANDIDATES), titles=t), "deep")[0][1] for t in (("",) * 5, titles))
    assert one == 1.0
    assert two == pytest.approx((math.log(6 / 3) + 1) / (math.log(6 / 2) + 1))  # its own title is no second document


@pytest.mark.parametrize("count", [1, 2, 4])
def test_few_candidates_have_no_document_frequencies(count):
    assert all(weight == 1.0 for of in weights_of(CANDIDATES[:count], "harbour") for weight in of)


def test_every_piece_of_a_word_has_the_weight_of_the_word():
    """Tokens are pieces of words: the frequency is the word's, not the piece's."""
    answer = word_map(CANDIDATES, lambda _: 1.0)
    first = replace(answer.blocks[0], offsets=(Span(-1, -1), Span(0, 4), Span(4, 13)))
    pieces = word_weights(replace(answer, blocks=(first, *answer.blocks[1:])), "harbour", WORDS)
    everywhere = 1 / (math.log(6 / 2) + 1)
    assert pieces[:3].tolist() == pytest.approx([1.0, everywhere, everywhere])


def test_words_of_scripts_without_spaces():
    documents = five("港は深い", "港の壁", "港", "この港", "港と船")
    assert weights_of(documents, "港")[2] == pytest.approx([1 / (math.log(6 / 2) + 1)])


def test_the_score_is_the_formula():
    documents = five("a b", "c", "d e f", "g", "h")
    values = {"a": 0.3, "b": 0.1, "c": 0.4, "d": 0.1, "e": 0.1, "f": 0.1, "g": -1.0, "h": 0.2}
    answer = word_map(documents, lambda word: values[word], calibration=0.0)
    for rows in answer.rows.values():
        rows[..., [block.tokens.start for block in answer.blocks]] = 0.0  # the title token
    weights = torch.ones(answer.token_ids.shape[0], dtype=torch.float64)
    weights[1] = 0.5  # "a"
    mass = [0.15 + 0.1, 0.4, 0.3, 0.0, 0.2]
    entropy = [
        -(0.6 * math.log(0.6) + 0.4 * math.log(0.4)) / math.log(3),
        0.0,
        math.log(3) / math.log(4),
        0.0,
        0.0,
    ]
    plain = reattn_scores(answer, weights, HEADS[:1], length_power=0)
    assert plain.tolist() == pytest.approx(mass)
    spread = reattn_scores(answer, weights, HEADS[:1], spread=0.5, length_power=0)
    mean = sum(entropy) / 5
    assert spread.tolist() == pytest.approx([b * (1 + 0.5 * (e - mean)) for b, e in zip(mass, entropy, strict=True)])
    assert reattn_scores(answer, weights, HEADS[:1], length_power=1)[2] == pytest.approx(0.3 / 4)


def test_the_window_with_most_attention_counts_and_an_empty_document_has_no_score():
    documents = [Document("0", "low low high high"), Document("1", " "), Document("2", "low")]
    windows = [[Span(0, 7), Span(8, 17)], [], [Span(0, 3)]]
    answer = word_map(documents, lambda word: {"low": 0.1, "high": 0.4}[word], windows, calibration=0.0)
    answer.rows["mean"][..., [block.tokens.start for block in answer.blocks]] = 0.0
    scores = reattn_scores(
        answer, torch.ones(answer.token_ids.shape[0], dtype=torch.float64), HEADS[:1], spread=1.0, length_power=0
    )
    assert float(scores[0]) > 0.8 > float(scores[2])  # spread more evenly than the mean, so above its sum
    assert float(scores[1]) == -math.inf


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=20))
def test_spread_is_between_one_token_and_all_alike(values):
    mass = torch.tensor(values, dtype=torch.float64)
    assert -1e-9 <= spread_of(mass) <= 1 + 1e-9
    assert spread_of(torch.ones(len(values), dtype=torch.float64)) == pytest.approx(float(len(values) > 1))
    alone = torch.zeros(len(values), dtype=torch.float64)
    alone[0] = 1.0
    assert spread_of(alone) == 0.0
