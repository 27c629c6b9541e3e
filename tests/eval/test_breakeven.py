from __future__ import annotations

import pytest

from rag.attention.engine import AttentionEngine
from rag.compressors import AttentionCompressor
from rag.demo_data import demo_corpus
from rag.errors import InputError
from rag.eval.bench_engine import Timing
from rag.eval.breakeven import Length, Prefill, measure, rates
from rag.rerankers import HeadReranker


def length(tokens: int, kept: int, compress: float, prefill: float) -> Length:
    """Compression in ``compress`` seconds after the reranker, 4 times that alone, 2 and 40 times over new documents."""
    seconds = (compress, 2 * compress, 4 * compress, 40 * compress, prefill, prefill / 5)
    timings = [Timing((of,)) for of in seconds]
    return Length(tokens, kept, *timings)


def test_shares_and_break_even_rates():
    row = length(1000, 200, 0.1, 2.5).row()
    assert row["saved_s"] == pytest.approx(2.0)
    assert row["after_reranker_share"] == pytest.approx(0.05)
    assert row["cold_share"] == pytest.approx(2.0)
    # 800 tokens are saved: a reader that takes in fewer than 8,000 a second loses more than the 0.1 s.
    assert row["after_reranker_break_even"] == pytest.approx(8000)
    assert row["after_reranker_new_break_even"] == pytest.approx(4000)
    assert row["warm_break_even"] == pytest.approx(2000)
    nothing_saved = Length(100, 100, *[Timing((0.1,))] * 6)
    assert nothing_saved.row()["warm_share"] is None
    assert nothing_saved.row()["warm_break_even"] == 0


def test_readers_by_stated_rate_and_by_size():
    lengths = [length(2000, 400, 0.1, 4.0), length(1000, 200, 0.1, 1.0)]
    same, stated, estimated = rates(lengths, 100_000_000, {"my 8B": 5000.0}, {"1B": 1e9})
    assert (same.tokens_per_second, same.estimated) == (500, False)
    assert (stated.name, stated.saved(lengths[0])) == ("my 8B", pytest.approx(0.32))
    # Ten times the parameters: a tenth of the measured rate.
    assert (estimated.tokens_per_second, estimated.estimated) == (50, True)
    with pytest.raises(InputError, match="'x': rate or size must be a finite number above 0, given 0"):
        rates(lengths, 1, {"x": 0.0}, {})
    with pytest.raises(InputError, match="no input length"):
        rates([], 1, {}, {})


def test_measured_with_the_real_model(smollm2):
    engine = AttentionEngine(smollm2.name)
    prefill = Prefill(engine)
    assert 100e6 < prefill.parameters < 200e6
    parts = (engine, AttentionCompressor(engine), HeadReranker(engine), prefill)
    texts = [document.text for document in demo_corpus()]
    forgotten = []

    def forget() -> None:
        forgotten.append(engine.cache_stats().bytes)
        engine.clear_cache()

    (found,) = measure(*parts, texts, [300], ratio=0.2, passage_tokens=50, repeats=1, forget=forget)
    assert 200 <= found.tokens <= 300
    assert 0 < found.kept <= 0.2 * found.tokens
    # What has been read is not read again.
    assert found.after_reranker.median < found.cold.median
    assert len(forgotten) == 2  # before the cold run, and before the reranker of new documents
    assert min(forgotten) > 0
    with pytest.raises(InputError, match="input of 9000 tokens; accepted: 50 to 8192"):
        measure(*parts, texts, [9000], passage_tokens=50)
