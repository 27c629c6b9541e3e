from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag.rerankers.windows import over_windows


def test_the_best_window_or_the_mean_of_all_counts():
    scores, owners = [0.1, 0.5, -2.0, 0.3], [0, 0, 1, 0]
    assert over_windows(scores, owners, 2) == ([0.5, -2.0], [3, 1])
    means, windows = over_windows(scores, owners, 2, "mean")
    assert means == [(0.1 + 0.5 + 0.3) / 3, -2.0]
    assert windows == [3, 1]


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), max_size=6))
def test_the_mean_never_beats_the_best(documents):
    owners = [place for place, windows in enumerate(documents) for _ in windows]
    flat = [score for windows in documents for score in windows]
    best, counts = over_windows(flat, owners, len(documents))
    mean, _ = over_windows(flat, owners, len(documents), "mean")
    assert best == [max(windows) for windows in documents]
    assert counts == [len(windows) for windows in documents]
    assert all(low <= high + 1e-9 for low, high in zip(mean, best, strict=True))
