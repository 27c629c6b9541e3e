from __future__ import annotations

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.attention.detection import LabelledList, detect, ndcg
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


def test_no_lists_is_an_error():
    class Nothing:
        def all_heads(self):
            return ()

    with pytest.raises(InputError, match="none were given"):
        detect(Nothing(), [], lambda _answer, _item: np.zeros((0, 1)))  # type: ignore[arg-type]
