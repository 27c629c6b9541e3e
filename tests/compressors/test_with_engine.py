"""The attention stages over the real SmolLM2-135M and one shared pass."""

from __future__ import annotations

import pytest

from rag.attention.engine import AttentionEngine
from rag.attention.shared import SharedPass
from rag.attention.types import Head
from rag.budget import Budget
from rag.compressors import AttentionCompressor, SentinelRawCompressor
from rag.compressors.ordering import AttentionSort
from rag.models import ResolvedModel
from rag.types import Document, Query, ScoredDocument

TEXTS = [
    "Kestrel Point lies on the west coast. Its harbour was dredged in 1961 to a depth of 14 metres. Fog is common.",
    "The bakery opens at six. Rye bread sells out by nine o'clock. 😀 Crème brûlée is served on Sundays.",
    "今日は良い天気です。港の深さは十四メートルです。\n\n| a | b |\n|---|---|\n| 1. x | 2 |\n",
    "Long ago " + "the lighthouse keeper counted ships. " * 150 + "He died in 1902.",
]
DOCUMENTS = [ScoredDocument(Document(str(i), text), -float(i), i + 1) for i, text in enumerate(TEXTS)]
QUERY = Query("How deep is the harbour of Kestrel Point?")


@pytest.fixture(scope="module")
def engine(smollm2: ResolvedModel) -> AttentionEngine:
    return AttentionEngine(smollm2.name)


@pytest.fixture(scope="module")
def heads(engine: AttentionEngine) -> tuple[Head, ...]:
    """All heads of the layers that carry relevance in this model (the upper third does not)."""
    return tuple(head for head in engine.all_heads() if 9 <= head.layer < 19)


@pytest.mark.parametrize(
    "budget", [Budget(18), Budget(40), Budget(150), Budget(0.1, "ratio"), Budget(90, "characters")]
)
def test_the_budget_holds_for_the_joined_text(engine: AttentionEngine, heads: tuple[Head, ...], budget: Budget) -> None:
    results = AttentionCompressor(engine, heads=heads).compress(QUERY, DOCUMENTS, budget)
    after = engine.count_tokens([result.text for result in results])
    assert after == [result.tokens_after for result in results]
    if budget.unit == "characters":
        assert 0 < sum(len(result.text) for result in results) <= budget.amount
    else:
        assert 0 < sum(after) <= budget.limit(sum(result.tokens_before for result in results))
    for result in results:
        assert result.spans == tuple(sentence.span for sentence in result.sentences if sentence.kept)


def test_attention_finds_the_answer_among_windows_and_scripts(engine: AttentionEngine, heads: tuple[Head, ...]) -> None:
    results = AttentionCompressor(engine, heads=heads).compress(QUERY, DOCUMENTS, Budget(40))
    assert "a depth of 14 metres" in results[0].text
    scores = [[sentence.score for sentence in result.sentences] for result in results]
    assert max(scores[0]) > max(scores[1])


def test_one_pass_serves_compression_and_ordering(engine: AttentionEngine, heads: tuple[Head, ...]) -> None:
    stages = (
        AttentionCompressor(engine, heads=heads),
        SentinelRawCompressor(engine, heads=heads),
        AttentionSort(engine, heads=heads),
    )
    shared = SharedPass(engine, QUERY, [stage.spec for stage in stages])
    compressed = stages[0].compress(QUERY, DOCUMENTS, Budget(60), attender=shared)
    raw = stages[1].compress(QUERY, DOCUMENTS, Budget(60), attender=shared)
    ordered = stages[2].order(QUERY, DOCUMENTS, attender=shared)
    assert shared.count.passes == 1
    assert sum(result.tokens_after for result in raw) <= 60
    assert sorted(item.document.id for item in ordered) == ["0", "1", "2", "3"]
    alone = stages[0].compress(QUERY, DOCUMENTS, Budget(60))
    assert [result.spans for result in alone] == [result.spans for result in compressed]


def test_attention_sort_settles_in_the_block_layout(engine: AttentionEngine, heads: tuple[Head, ...]) -> None:
    once = AttentionSort(engine, heads=heads).order(QUERY, DOCUMENTS)
    again = AttentionSort(engine, heads=heads, iterations=5).order(QUERY, DOCUMENTS)
    backwards = AttentionSort(engine, heads=heads).order(QUERY, DOCUMENTS[::-1])
    assert once == again == backwards


def test_the_default_heads_find_the_answer(engine: AttentionEngine) -> None:
    compressor = AttentionCompressor(engine)
    assert compressor.spec.heads == engine.default_heads("sentence")
    results = compressor.compress(QUERY, DOCUMENTS, Budget(40))
    assert "a depth of 14 metres" in results[0].text
