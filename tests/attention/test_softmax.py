from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rag.attention import softmax


def tensors(rows=5, keys=9, seed=0):
    torch.manual_seed(seed)
    return torch.randn(2, rows, 8), torch.randn(2, keys, 8), torch.randn(2, keys, 8)


def dense(query, key, value, scale, seen):
    logits = torch.matmul(query * scale, key.transpose(-1, -2)).masked_fill(~seen, float("-inf"))
    return torch.softmax(logits, -1) @ value, torch.logsumexp(logits, -1)


@pytest.mark.parametrize("kernel", [softmax._fast_cpu, softmax._plain])
def test_kernels_give_attention_and_its_log_sum_exp(kernel):
    query, key, value = tensors()
    seen = torch.rand(5, 9) > 0.3
    output, lse = kernel(query, key, value, 0.3, softmax.as_bias(seen))
    expected, mass = dense(query, key, value, 0.3, seen)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(lse, mass, atol=1e-5, rtol=1e-4)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 99))
def test_merging_parts_is_attending_to_all_keys_at_once(sizes, seed):
    query, key, value = tensors(keys=sum(sizes), seed=seed)
    parts = [
        softmax.attend(query, k.contiguous(), v.contiguous(), 0.5)
        for k, v in zip(key.split(sizes, 1), value.split(sizes, 1), strict=True)
    ]
    output, lse = softmax.merge(parts)
    whole, mass = softmax.attend(query, key, value, 0.5)
    torch.testing.assert_close(output, whole, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(lse, mass, atol=1e-5, rtol=1e-4)


def test_a_row_that_sees_nothing_adds_nothing():
    query, key, value = tensors()
    blind = torch.ones(5, 9, dtype=torch.bool)
    blind[2] = False
    output, lse = softmax.attend(query, key, value, 0.5, softmax.as_bias(blind))
    assert not output[:, 2].any()
    assert bool(torch.isneginf(lse[:, 2]).all())
    merged, _ = softmax.merge([(output, lse), softmax.attend(query, key, value, 0.5)])
    assert bool(torch.isfinite(merged).all())


def test_probabilities_of_a_row_sum_to_one_over_all_it_sees():
    query, key, _ = tensors()
    lse = softmax.log_mass(query[0], key[0], 0.5)
    weights = softmax.probabilities(query[0], key[0], 0.5, lse)
    torch.testing.assert_close(weights.sum(-1), torch.ones(5))


def test_large_logits_in_half_precision_stay_finite():
    query = torch.full((1, 1, 8), 200.0, dtype=torch.float16)
    key = torch.full((1, 3, 8), 300.0, dtype=torch.float16)
    output, lse = softmax._plain(query, key, torch.ones(1, 3, 8, dtype=torch.float16), 8**-0.5 / 16, None)
    assert bool(torch.isfinite(output).all())
    assert bool(torch.isfinite(lse).all())


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5))
def test_grouping_rows_is_undone(key_heads, share, rows):
    query = torch.randn(key_heads * share, rows, 4)
    grouped = softmax.group_rows(query, key_heads)
    assert grouped.shape == (key_heads, share * rows, 4)
    assert torch.equal(softmax.ungroup_rows(grouped, key_heads * share), query)


def test_a_sliding_window_hides_keys_that_are_too_far_back():
    rows, keys = torch.tensor([5, 6]), torch.tensor([0, 3, 4, 5, 6])
    assert softmax.visible(rows, keys, 3).tolist() == [
        [False, True, True, True, False],
        [False, False, True, True, True],
    ]
    assert softmax.visible(rows, keys, None).tolist() == [[True, True, True, True, False], [True] * 5]
