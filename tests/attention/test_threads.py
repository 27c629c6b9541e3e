"""One engine under many threads, and with too little memory for a batch, gives the serial results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import tiny
import torch
from transformers import AutoTokenizer

from rag.attention import blocks
from rag.attention.decoder import Decoder
from rag.attention.engine import AttentionEngine, AttentionRequest
from rag.attention.template import ICR_TEMPLATE
from rag.attention.types import AttentionSpec, Head
from rag.errors import ConfigError
from rag.types import Document, Query

SPEC = AttentionSpec((Head(1, 0), Head(2, 3)), calibrated=True)


@pytest.fixture(scope="module")
def decoder(smollm2) -> Decoder:
    return Decoder(tiny.decoder("llama"), AutoTokenizer.from_pretrained(smollm2.path), "tiny", "")


def make(decoder: Decoder, **options) -> AttentionEngine:
    return AttentionEngine(decoder, split=tiny.split_words, window_tokens=96, overlap_tokens=8, **options)


def request(i: int) -> AttentionRequest:
    documents = [
        Document(str(n), f"Ship number {n} carries {n * i} barrels. " * (1 + (n + i) % 5)) for n in range(1, 6)
    ]
    return AttentionRequest(Query(f"How many barrels are on ship {i}?" + " Please." * (i % 3)), tuple(documents), SPEC)


def same(left, right):
    torch.testing.assert_close(left.rows["mean"], right.rows["mean"], atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(left.calibration["mean"], right.calibration["mean"], atol=1e-6, rtol=1e-4)


def test_32_threads_on_one_engine_give_the_serial_results(decoder):
    requests = [request(i) for i in range(32)]
    serial_engine = make(decoder)
    serial = [serial_engine.attend(r.query, r.documents, r.spec) for r in requests]
    block_bytes = serial_engine.cache_stats().bytes // serial_engine.cache_stats().blocks
    shared = make(decoder, cache_bytes=8 * block_bytes)  # small: blocks come and go while others use them
    with ThreadPoolExecutor(32) as pool:
        threaded = list(pool.map(lambda r: shared.attend(r.query, r.documents, r.spec), requests))
    for left, right in zip(threaded, serial, strict=True):
        same(left, right)
    stats = shared.cache_stats()
    assert stats.evictions > 0
    assert stats.bytes <= stats.budget_bytes


def test_a_batch_that_does_not_fit_in_memory_is_split(decoder, monkeypatch):
    requests = [request(i) for i in range(4)]
    engine = make(decoder)
    expected = engine.attend_many(requests)
    real, most = blocks.run, 60

    def tight(model, ids, positions, reading):
        if len(ids) > most:
            raise torch.OutOfMemoryError(f"{len(ids)} tokens")
        real(model, ids, positions, reading)

    monkeypatch.setattr(blocks, "run", tight)
    for left, right in zip(make(decoder).attend_many(requests), expected, strict=True):
        same(left, right)


def test_an_engine_takes_what_another_has_read_and_refuses_another_prompts_blocks(decoder):
    item = request(3)
    source, taker = make(decoder), make(decoder)
    expected = source.attend(item.query, item.documents, item.spec)
    taker.take_blocks(source)
    found = taker.attend(item.query, item.documents, item.spec)
    assert found.encoded_tokens == 0
    assert torch.equal(found.rows["mean"], expected.rows["mean"])
    with pytest.raises(ConfigError, match="blocks of another engine"):
        make(decoder, template=ICR_TEMPLATE).take_blocks(source)
