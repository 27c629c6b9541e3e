from __future__ import annotations

import ir_measures
import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from rag.attention.decoder import Decoder
from rag.attention.detection import LabelledList, detect, ndcg
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
