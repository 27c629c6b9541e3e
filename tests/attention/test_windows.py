from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rag.attention.windows import token_windows
from rag.types import Span


@st.composite
def texts(draw):
    """Token offsets of a text, its sentence spans (some longer than any window), a limit and an overlap."""
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=30))
    offsets, sentences, at = [], [], 0
    for length in lengths:
        start = at
        for _ in range(length):
            offsets.append(Span(at, at + 3))
            at += 4
        sentences.append(Span(start, at))
    limit = draw(st.integers(2, 50))
    return offsets, sentences, limit, draw(st.integers(0, limit // 2 - 1)) if limit >= 4 else 0


@given(texts())
def test_windows_cover_every_token_in_order_and_fit(case):
    offsets, sentences, limit, overlap = case
    windows = token_windows(offsets, sentences, limit, overlap)
    assert windows[0].start == 0
    assert windows[-1].end == len(offsets)
    for before, after in pairwise(windows):
        assert before.start < after.start <= before.end < after.end
        assert before.end - after.start <= overlap
    assert all(0 < window.end - window.start <= limit for window in windows)


@given(texts())
def test_windows_end_at_sentence_borders_unless_a_sentence_is_longer_than_a_window(case):
    offsets, sentences, limit, overlap = case
    if any(sentence.end - sentence.start > 4 * limit for sentence in sentences):
        return
    ends = {sentence.end for sentence in sentences}
    for window in token_windows(offsets, sentences, limit, overlap):
        assert offsets[window.end - 1].end + 1 in ends


def test_what_fits_is_one_window_and_nothing_is_none():
    offsets = [Span(0, 3), Span(4, 7)]
    assert token_windows(offsets, [Span(0, 8)], 2, 0) == [Span(0, 2)]
    assert token_windows([], [], 8, 2) == []
