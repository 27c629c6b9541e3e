from __future__ import annotations

import ir_measures
import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from rag.attention.decoder import Decoder
from rag.attention.detection import CRITERIA, LabelledList, contrastive, detect, gold_mass, ndcg
from rag.attention.engine import AttentionEngine
from rag.attention.types import Head
from rag.errors import InputError
from rag.types import Document, Query


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-50, 50)), min_size=1, max_size=25, unique_by=lambda x: x[1]))
def test_ndcg_is_that_of_ir_measures(items):
    gains, scores = zip(*items, strict=True)
    if not any(gains):
        return
    qrels = [ir_measures.Qrel("q", str(i), gain) for i, gain in enumerate(gains)]
    run = [ir_measures.ScoredDoc("q", str(i), float(score)) for i, score in enumerate(scores)]
    expected = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, run)[ir_measures.nDCG @ 10]
    assert ndcg(np.array([scores, scores], dtype=float), gains) == pytest.approx([expected, expected], abs=1e-9)


def test_a_head_that_says_nothing_does_not_profit_from_the_order_it_was_given():
    assert ndcg(np.zeros((1, 20)), [1] + [0] * 19)[0] == 0.0


def test_a_list_without_anything_relevant_names_its_query():
    with pytest.raises(InputError, match="'q7' has nothing relevant"):
        LabelledList(Query("x", "q7"), (Document("a", "t"),), (0,))


def test_the_qr_score_is_the_sum_over_what_is_relevant():
    scores = np.array([[0.5, 0.2, 0.1], [5.0, -1.0, 0.25]])
    assert gold_mass(scores, [0, 1, 2]).tolist() == pytest.approx([0.3, -0.75])
    assert gold_mass(np.array([[0.5, -np.inf]]), [1, 1]).tolist() == [0.5]


def test_the_contrastive_score_of_one_relevant_item_is_its_log_softmax():
    scores = np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 1.0]])
    z = np.array([1.0, -1.0, 0.0]) / np.std([1.0, -1.0, 0.0])
    for temperature in (0.5, 1.0):
        expected = z[0] / temperature - np.log(np.exp(z / temperature).sum())
        found = contrastive(scores, [1, 0, 0], temperature)
        assert found.tolist() == pytest.approx([expected, -np.log(3)])


def test_relevant_items_do_not_compete_with_each_other_and_unread_ones_are_left_out():
    z = np.array([1.0, 1.0, -2.0]) / np.std([1.0, 1.0, -2.0])
    one = -np.log1p(np.exp(z[2] - z[0]))
    assert contrastive(np.array([[1.0, 1.0, -2.0]]), [1, 2, 0], 1.0).tolist() == pytest.approx([one])
    assert contrastive(np.array([[1.0, 1.0, -np.inf, -2.0]]), [1, 2, 1, 0], 1.0).tolist() == pytest.approx([one])
    assert contrastive(np.array([[-np.inf, 2.0]]), [1, 0]).tolist() == [0.0]
    assert contrastive(np.array([[1.0, 2.0]]), [1, 1]).tolist() == [0.0]


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12), st.floats(0.01, 100), st.floats(-100, 100), st.data())
def test_a_heads_scale_changes_its_qr_score_but_not_its_contrastive_one(values, factor, shift, data):
    gains = data.draw(st.lists(st.integers(0, 1), min_size=len(values), max_size=len(values)).filter(any))
    scores = np.array([values])
    if np.ptp(scores) < 1e-3:
        return
    assert contrastive(scores * factor + shift, gains) == pytest.approx(contrastive(scores, gains), abs=1e-3)
    assert contrastive(scores, gains)[0] <= 0
    assert gold_mass(scores * factor, gains) == pytest.approx(gold_mass(scores, gains) * factor, abs=1e-6)


@pytest.mark.parametrize("method", CRITERIA)
def test_every_criterion_prefers_the_head_that_separates(method):
    right, wrong = [0.9, 0.1, 0.0, 0.2], [0.1, 0.3, 0.9, 0.2]
    good, bad = CRITERIA[method](np.array([right, wrong]), [1, 0, 0, 0])
    assert good > bad


@pytest.fixture(scope="module")
def engine(smollm2) -> AttentionEngine:
    decoder = Decoder(tiny.decoder("llama"), AutoTokenizer.from_pretrained(smollm2.path), "tiny", "")
    return AttentionEngine(decoder, split=tiny.split_words, window_tokens=96, overlap_tokens=8)


def test_the_head_that_ranks_best_comes_first_with_its_mean(engine):
    documents = tuple(Document(str(i), f"Ship {i} lies in the harbour.") for i in range(4))
    lists = [
        LabelledList(Query(f"ship {gold}", str(gold)), documents, tuple(int(i == gold) for i in range(4)))
        for gold in (1, 2)
    ]

    def scorer(answer, item):
        """Head (1, 2) is always right, head (0, 3) for the first query only, the others never."""
        gold = item.gains.index(1)
        scores = np.tile(-np.array(item.gains, dtype=float), (len(answer.heads), 1))
        scores[answer.heads.index(Head(1, 2)), gold] = 1.0
        if gold == 1:
            scores[answer.heads.index(Head(0, 3)), gold] = 1.0
        return scores

    found = detect(engine, lists, scorer, layers=2)
    worst = 1 / np.log2(5)
    assert list(found.items())[:2] == [(Head(1, 2), 1.0), (Head(0, 3), pytest.approx((1 + worst) / 2))]
    assert {head.layer for head in found} == {0, 1}
    assert min(found.values()) == pytest.approx(worst)


def test_no_lists_is_an_error(engine):
    with pytest.raises(InputError, match="none were given"):
        detect(engine, [], lambda _answer, _item: np.zeros((0, 1)))
