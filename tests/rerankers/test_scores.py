"""The formulas on small numbers worked out by hand, and their invariants."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rag.attention.reading import calibrated_attention
from rag.attention.types import AttentionMap, BlockSpan, Head
from rag.errors import InputError
from rag.rerankers.scores import (
    document_scores,
    drop_negative_outliers,
    head_scores,
    icr_scores,
    zscore,
)
from rag.types import Document, Span

HEADS = (Head(0, 0), Head(3, 1))


def make_map(real, free, blocks, documents):
    def rows(values):
        return {"mean": torch.tensor(values, dtype=torch.float32)[:, None]}

    return AttentionMap(
        documents=tuple(Document(str(i), "x") for i in range(documents)),
        heads=HEADS,
        rows=rows(real),
        calibration=rows(free) if free is not None else None,
        blocks=tuple(BlockSpan(document, Span(*tokens), (), Span(0, 1)) for document, tokens in blocks),
        token_ids=torch.zeros(len(real[0]), dtype=torch.long),
        query_tokens=("q",),
        cached_blocks=0,
        encoded_tokens=0,
    )


def test_calibration_is_subtracted_per_token_and_heads_are_summed():
    answer = make_map(
        [[0.5, 0.2, 0.1], [0.3, 0.3, 0.2]], [[0.1, 0.1, 0.1], [0.2, 0.1, 0.2]], [(0, (0, 2)), (1, (2, 3))], 2
    )
    torch.testing.assert_close(
        calibrated_attention(answer), torch.tensor([[0.4, 0.1, 0.0], [0.1, 0.2, 0.0]]), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(icr_scores(answer), torch.tensor([0.8, 0.0]), atol=1e-6, rtol=0)
    torch.testing.assert_close(icr_scores(answer, HEADS[1:]), torch.tensor([0.3, 0.0]), atol=1e-6, rtol=0)


def test_reading_without_calibration_is_refused():
    answer = make_map([[0.5], [0.3]], None, [(0, (0, 1))], 1)
    with pytest.raises(InputError, match="calibrated=True"):
        calibrated_attention(answer)


def test_only_negative_outliers_are_dropped():
    tokens = torch.tensor([0.1] * 20 + [-5.0, 5.0])
    kept = drop_negative_outliers(tokens)
    assert float(kept[20]) == 0.0
    assert float(kept[21]) == 5.0
    assert torch.equal(kept[:20], tokens[:20])


def test_a_document_of_one_token_keeps_its_score():
    # The unbiased standard deviation of one value is NaN; a naive mask would silently drop it.
    assert float(drop_negative_outliers(torch.tensor([0.7]))) == pytest.approx(0.7)


def test_the_best_window_counts_and_what_was_not_read_has_no_score():
    answer = make_map([[0.1, 0.4, 0.2], [0.0, 0.0, 0.0]], [[0.0] * 3] * 2, [(0, (0, 1)), (0, (1, 2)), (1, (2, 3))], 3)
    torch.testing.assert_close(icr_scores(answer), torch.tensor([0.4, 0.2, float("-inf")]), atol=1e-6, rtol=0)


def test_a_head_that_was_not_read_is_named():
    answer = make_map([[0.5], [0.3]], [[0.0], [0.0]], [(0, (0, 1))], 1)
    with pytest.raises(InputError, match=r"9-9 are not in the attention map, which has 2 heads"):
        icr_scores(answer, (HEADS[0], Head(9, 9)))


def test_head_scores_are_the_icr_scores_of_each_head_alone():
    torch.manual_seed(0)
    answer = make_map(torch.rand(2, 9).tolist(), torch.rand(2, 9).tolist(), [(0, (0, 4)), (1, (4, 9))], 2)
    each = head_scores(answer, length_power=0)
    for place, head in enumerate(HEADS):
        torch.testing.assert_close(each[place], icr_scores(answer, (head,)))


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=30))
def test_zscore_keeps_the_order_and_is_finite(values):
    scores = torch.tensor(values)
    standard = zscore(scores)
    assert bool(torch.isfinite(standard).all())
    for i in range(len(values)):
        for j in range(i):
            if scores[i] > scores[j]:
                assert standard[i] >= standard[j]


@given(st.integers(1, 20), st.floats(-5, 5))
def test_zscore_of_equal_scores_is_zero(count, value):
    assert not zscore(torch.full((count,), value)).any()


def test_document_scores_work_on_one_row_as_on_many():
    answer = make_map([[0.1, 0.2], [0.3, 0.4]], [[0.0] * 2] * 2, [(0, (0, 1)), (1, (1, 2))], 2)
    both = torch.tensor([[0.1, 0.2], [0.3, 0.4]])
    torch.testing.assert_close(document_scores(answer, both)[1], document_scores(answer, both[1]))


def test_length_power_goes_from_the_sum_to_the_mean():
    answer = make_map([[0.1] * 5, [0.2] * 5], [[0.0] * 5] * 2, [(0, (0, 4)), (1, (4, 5))], 2)
    for power, expected in ((0.0, [0.4, 0.1]), (0.5, [0.2, 0.1]), (1.0, [0.1, 0.1])):
        torch.testing.assert_close(head_scores(answer, HEADS[:1], power)[0], torch.tensor(expected))
