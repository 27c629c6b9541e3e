from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rag.retrievers.selection import top_k

scores = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, -1.0]), max_size=40)


@given(scores, st.integers(1, 50))
def test_equals_a_stable_sort(values, k):
    expected = sorted(range(len(values)), key=lambda i: -values[i])[:k]
    assert top_k(np.array(values), k).tolist() == expected


@given(scores, st.integers(1, 50), st.randoms())
def test_marked_positions_come_last_among_equals(values, k, random):
    last = [random.random() < 0.5 for _ in values]
    expected = sorted(range(len(values)), key=lambda i: (-values[i], last[i]))[:k]
    assert top_k(np.array(values), k, np.array(last, dtype=bool)).tolist() == expected
