from __future__ import annotations

import numpy as np
import pytest
from attention_maps import HEADS, word_map

from rag.attention.types import Head
from rag.compressors.attention_scores import calibrated_tokens, last_row_shares, sentence_means
from rag.errors import InputError
from rag.types import Document, Span

TEXT = "a1 a3. b2 b2 b5."
SPANS = [Span(0, 6), Span(7, 16)]


def digit(word: str) -> float:
    return float(word[1])


def test_calibrated_tokens_sum_the_chosen_heads() -> None:
    attention = word_map([Document("d", TEXT)], digit)
    np.testing.assert_allclose(calibrated_tokens(attention, [Head(1, 1)]), [100, 1.9, 5.9, 3.9, 3.9, 9.9], rtol=1e-6)
    np.testing.assert_allclose(calibrated_tokens(attention)[1:], [2.8, 8.8, 5.8, 5.8, 14.8], rtol=1e-6)


def test_sentence_means_are_per_token_and_leave_the_title_out() -> None:
    attention = word_map([Document("e", ""), Document("d", TEXT)], digit)
    empty, means = sentence_means(attention, [[], SPANS], np.asarray(attention.rows["mean"])[:, 0].astype(float))
    assert empty.shape == (2, 0)
    np.testing.assert_allclose(means, [[2, 3], [4, 6]])


def test_overlapping_windows_give_the_greatest_mean() -> None:
    # The second window starts inside the second sentence and sees only "b5."
    attention = word_map([Document("d", TEXT)], digit, windows=[[Span(0, 16), Span(12, 16)]])
    (means,) = sentence_means(attention, [SPANS], np.asarray(attention.rows["mean"])[:1, 0].astype(float))
    np.testing.assert_allclose(means, [[2, 5]])


def test_a_sentence_without_a_token_has_no_score() -> None:
    attention = word_map([Document("d", TEXT)], digit, windows=[[Span(0, 6)]])
    (means,) = sentence_means(attention, [SPANS], np.asarray(attention.rows["mean"])[:1, 0].astype(float))
    np.testing.assert_array_equal(means, [[2, -np.inf]])


def test_shares_sum_to_one_over_the_context() -> None:
    shares = last_row_shares(word_map([Document("d", TEXT)], digit), HEADS[:1])
    np.testing.assert_allclose(shares.sum(axis=1), [1])
    np.testing.assert_allclose(shares[0, 1:], np.array([1, 3, 2, 2, 5]) / 63)


def test_what_a_map_lacks_is_named() -> None:
    with pytest.raises(InputError, match="calibrated=True"):
        calibrated_tokens(word_map([Document("d", TEXT)], digit, calibration=None))
    attention = word_map([Document("d", TEXT)], digit)
    with pytest.raises(InputError, match="7-7"):
        last_row_shares(attention, [Head(7, 7)])
    del attention.rows["last"]
    with pytest.raises(InputError, match="no 'last' row; it has: mean"):
        last_row_shares(attention)
