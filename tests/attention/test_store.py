from __future__ import annotations

import pytest
import torch

from rag.attention.passes import LayerStack
from rag.attention.store import BlockCache, StoredBlock
from rag.errors import ConfigError


def stack(tokens: int, depth: int = 3) -> LayerStack:
    torch.manual_seed(tokens)
    return LayerStack(torch.randn(depth, 2, tokens, 8), torch.randn(depth - 1, 2, tokens, 8))


def test_bytes_are_what_the_tensors_take():
    block = StoredBlock.of(stack(10), "float32")
    assert block.nbytes == (3 + 2) * 2 * 10 * 8 * 4
    assert StoredBlock.of(stack(10), "float16").nbytes == block.nbytes // 2
    assert StoredBlock.of(stack(10), "int8").nbytes == block.nbytes // 4 + (3 + 2) * 2 * 8 * 4


@pytest.mark.parametrize(
    ("precision", "error"), [("float32", 0.0), ("float16", 1e-3), ("bfloat16", 8e-3), ("int8", 4e-3)]
)
def test_reading_back_is_within_the_stated_error_of_the_largest_value(precision, error):
    exact = stack(32)
    block = StoredBlock.of(exact, precision)
    out = torch.empty(2, 32, 8)
    block.keys.read(1, out)
    assert float((out - exact.keys[1]).abs().max()) <= error * float(exact.keys[1].abs().max())


def test_the_least_recently_used_block_goes_first_and_the_budget_holds():
    size = StoredBlock.of(stack(10), "float32").nbytes
    cache = BlockCache(2 * size + 1)
    for name in (b"a", b"b"):
        cache.put(name, StoredBlock.of(stack(10), "float32"))
    assert cache.get(b"a", 3) is not None
    cache.put(b"c", StoredBlock.of(stack(10), "float32"))
    assert cache.get(b"b", 3) is None
    assert cache.get(b"a", 3) is not None
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.evictions, stats.blocks) == (2, 1, 1, 2)
    assert stats.bytes == 2 * size <= stats.budget_bytes


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16", "int8"])
def test_a_cache_takes_the_blocks_of_another_in_its_own_precision(precision):
    whole, other = BlockCache(1 << 20), BlockCache(1 << 20, precision)
    whole.put(b"a", StoredBlock.of(stack(10), "float32"))
    other.take(whole)
    found, expected = other.get(b"a", 3), StoredBlock.of(stack(10), precision)
    assert found is not None
    assert torch.equal(found.keys.data, expected.keys.data)
    assert torch.equal(found.values.data, expected.values.data)
    assert (found.keys.scale is None) == (precision != "int8")


def test_int8_read_as_float32_is_within_half_a_step():
    exact = stack(10)
    back = StoredBlock.of(exact, "int8").to("float32").keys
    assert back.data.dtype == torch.float32
    assert bool(((back.data - exact.keys).abs() <= exact.keys.abs().amax(2, keepdim=True) / 127 * 0.5001).all())


def test_a_block_that_is_too_shallow_is_a_miss():
    cache = BlockCache(1 << 20)
    cache.put(b"a", StoredBlock.of(stack(4, depth=2), "float32"))
    assert cache.get(b"a", 3) is None
    assert cache.get(b"a", 2) is not None


def test_a_block_larger_than_the_whole_budget_is_not_kept_and_logged_with_both_numbers(caplog):
    block = StoredBlock.of(stack(10), "float32")
    cache = BlockCache(100)
    cache.put(b"a", block)
    assert cache.get(b"a", 1) is None
    assert cache.stats().bytes == 0
    assert str(block.nbytes) in caplog.text
    assert "100 bytes" in caplog.text


def test_an_unknown_precision_names_the_known_ones():
    with pytest.raises(ConfigError, match=r"int4.*float32, float16, bfloat16, int8"):
        BlockCache(100, "int4")
