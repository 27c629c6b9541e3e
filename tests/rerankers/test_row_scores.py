"""Scores from single rows on numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rag.attention.types import AttentionMap, BlockSpan, Head
from rag.errors import InputError
from rag.rerankers.row_scores import (
    attention_sorting_scores,
    blockrank_scores,
    calibrated_last_row_scores,
    pooled,
)
from rag.types import Document, Span

HEADS = (Head(1, 0), Head(1, 1))
TWO_WINDOWS = ((0, (0, 2)), (0, (2, 4)), (1, (4, 5)))


def make_map(rows, calibration=None, blocks=TWO_WINDOWS, documents=2):
    tokens = next(iter(rows.values())).shape[-1]
    return AttentionMap(
        documents=tuple(Document(str(i), "x") for i in range(documents)),
        heads=HEADS,
        rows=rows,
        calibration=calibration,
        blocks=tuple(BlockSpan(document, Span(*span), (), Span(0, 1)) for document, span in blocks),
        token_ids=torch.zeros(tokens, dtype=torch.long),
        query_tokens=("q",),
        cached_blocks=0,
        encoded_tokens=0,
    )


def one_row(*heads):
    return torch.tensor(heads)[:, None]


def test_the_best_window_counts_summed_or_averaged():
    answer = make_map({"last": one_row([0.0] * 5, [0.0] * 5)}, documents=3)
    tokens = torch.tensor([0.1, 0.2, 0.3, 0.5, 0.4])
    torch.testing.assert_close(pooled(answer, tokens, "sum"), torch.tensor([0.8, 0.4, -math.inf]))
    torch.testing.assert_close(pooled(answer, tokens, "mean"), torch.tensor([0.4, 0.4, -math.inf]))


def test_attention_sorting_averages_heads_and_nothing_is_calibrated_or_masked():
    answer = make_map({"last": one_row([0.1, 0.1, 0.0, 0.0, 0.3], [0.3, 0.1, 0.0, 0.0, 0.1])})
    expected = torch.tensor([0.15, 0.2], dtype=torch.float64)
    torch.testing.assert_close(attention_sorting_scores(answer), expected, atol=1e-7, rtol=0)
    assert attention_sorting_scores(answer, HEADS[:1])[1] == pytest.approx(0.3)
    assert attention_sorting_scores(answer, pooling="sum")[0] == pytest.approx(0.3)


def test_what_every_query_gives_a_token_is_taken_out():
    answer = make_map(
        {"last": one_row([0.1, 0.3, 0.0, 0.0, 0.3], [0.1, 0.3, 0.0, 0.0, 0.3])},
        {"last": one_row([0.0, 0.2, 0.0, 0.0, 0.3], [0.0, 0.2, 0.0, 0.0, 0.3])},
    )
    torch.testing.assert_close(
        calibrated_last_row_scores(answer), torch.tensor([0.1, 0.0], dtype=torch.float64), atol=1e-7, rtol=0
    )


@given(st.lists(st.floats(-8, 8, width=32), min_size=5, max_size=5), st.floats(-8, 8, width=32))
def test_blockrank_is_the_softmax_over_document_tokens_whatever_else_the_row_sees(logits, prefix):
    """The engine gives probabilities over everything; BlockRank's softmax sees the documents alone."""
    everything = torch.tensor([prefix, *logits], dtype=torch.float64).softmax(0)[1:]
    rows = everything.expand(2, 3, 5)
    scores = blockrank_scores(make_map({"all": rows}, blocks=((0, (0, 2)), (1, (2, 5)))))
    alone = torch.tensor(logits, dtype=torch.float64).softmax(0)
    torch.testing.assert_close(scores, torch.stack([alone[:2].sum(), alone[2:].sum()]))
    assert float(scores.sum()) == pytest.approx(1)


def test_blockrank_reads_the_last_two_rows_or_the_only_one():
    early, late = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 0.0, 0.0, 0.5])
    rows = torch.stack([early, late, late]).expand(2, 3, 5)
    assert blockrank_scores(make_map({"all": rows})).tolist() == [0.0, 1.0]
    assert blockrank_scores(make_map({"all": rows[:, :1]})).tolist() == [1.0, 0.0]
    assert blockrank_scores(make_map({"all": rows[:, 1:] * 0})).tolist() == [0.0, 0.0]


def test_a_map_without_the_row_says_what_to_read():
    answer = make_map({"last": one_row([0.1] * 5, [0.1] * 5)})
    with pytest.raises(InputError, match=r'AttentionSpec\(rows=\("all",\)\); the map has: last'):
        blockrank_scores(answer)
    with pytest.raises(InputError, match=r'AttentionSpec\(rows=\("last",\), calibrated=True\); the map has: none'):
        calibrated_last_row_scores(answer)
