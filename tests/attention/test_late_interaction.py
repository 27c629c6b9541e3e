"""Late interaction through attention, on maps whose numbers are known."""

from __future__ import annotations

import pytest
import torch
from attention_maps import HEADS, word_map
from hypothesis import given
from hypothesis import strategies as st

from rag.attention.late_interaction import best_token_scores
from rag.errors import InputError
from rag.types import Document, Span


def all_rows(answer, rows):
    """The map with every row of two query tokens: ``rows`` (2, T) for the first head, twice that for the second."""
    values = torch.tensor(rows, dtype=torch.float32)
    answer.rows["all"] = torch.stack([values, 2 * values])
    return answer


def test_every_query_row_looks_for_its_own_best_token():
    answer = word_map([Document("a", "one two three"), Document("b", "four")], lambda _: 0.0)
    # Tokens: title one two three | title four.
    answer = all_rows(answer, [[0.1, 0.9, 0.2, 0.3, 0.0, 0.4], [0.2, 0.1, 0.7, 0.3, 0.5, 0.4]])
    scores = best_token_scores(answer, length_power=0.0)
    assert scores.shape == (len(HEADS), 2)
    assert scores[0].tolist() == pytest.approx([(0.9 + 0.7) / 2, (0.4 + 0.5) / 2])
    assert scores[1].tolist() == pytest.approx([1.6, 0.9])
    halved = best_token_scores(answer, HEADS[1:], length_power=0.5)
    assert halved[0].tolist() == pytest.approx([1.6 / 4**0.5, 0.9 / 2**0.5])


def test_a_document_gets_its_best_window():
    document = Document("a", "one two three four")
    answer = word_map([document], lambda _: 0.0, windows=[[Span(0, 7), Span(7, 18)]])
    rows = [[0.0, 0.2, 0.1, 0.0, 0.6, 0.1], [0.0, 0.4, 0.1, 0.0, 0.1, 0.5]]
    scores = best_token_scores(all_rows(answer, rows), length_power=0.0)
    assert scores[0].item() == pytest.approx((0.6 + 0.5) / 2)


@given(st.lists(st.floats(0, 1, width=32), min_size=4, max_size=12), st.integers(0, 10))
def test_repeating_a_word_changes_nothing_before_the_length_is_taken_into_account(values, place):
    text = " ".join(f"w{number}" for number in range(len(values)))
    repeated = [*values, values[place % len(values)]]
    first = all_rows(word_map([Document("a", text)], lambda _: 0.0), [[0.0, *values]] * 2)
    second = all_rows(word_map([Document("a", text + " again")], lambda _: 0.0), [[0.0, *repeated]] * 2)
    assert torch.equal(best_token_scores(first, length_power=0.0), best_token_scores(second, length_power=0.0))
    assert (best_token_scores(first) >= best_token_scores(second)).all()


def test_a_document_without_text_has_no_score_and_a_map_without_rows_is_refused():
    answer = all_rows(word_map([Document("a", " "), Document("b", "one")], lambda _: 0.0), [[0.1, 0.2], [0.1, 0.2]])
    assert best_token_scores(answer)[0, 0].item() == float("-inf")
    with pytest.raises(InputError, match='rows=\\("all",\\)'):
        best_token_scores(word_map([Document("a", "one")], lambda _: 0.0))
