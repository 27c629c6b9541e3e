from __future__ import annotations

import pytest
from attention_maps import HEADS, WordAttender, scored

from rag.attention.types import AttentionSpec, Head
from rag.budget import Budget
from rag.compressors import AttentionCompressor, SentinelRawCompressor
from rag.errors import BudgetError, ConfigError, ModelOutputError
from rag.types import CompressedDocument, Query, Span

QUERY = Query("How deep is the harbour?")
DEEP = "The town is old. The harbour is deep. Boats rest. Rain falls on the harbour daily."


def relevance(word: str) -> float:
    return 9.0 if word.strip(".") in {"harbour", "deep"} else 1.0


@pytest.fixture
def attender() -> WordAttender:
    return WordAttender(relevance)


def texts(results: list[CompressedDocument]) -> list[str]:
    return [result.text for result in results]


def test_keeps_the_most_attended_sentences_in_source_order(attender: WordAttender) -> None:
    documents = scored("Nothing here at all.", DEEP)
    first, second = AttentionCompressor(attender).compress(QUERY, documents, Budget(11))
    assert (first.text, first.spans, first.tokens_after) == ("", (), 0)
    assert second.text == "The harbour is deep. … Rain falls on the harbour daily."
    assert (second.tokens_before, second.tokens_after) == (16, 11)
    assert [s.kept for s in second.sentences] == [False, True, False, True]
    assert second.sentences[1].span == Span(17, 37)
    assert second.sentences[1].score == pytest.approx((2 * (1 + 9 + 1 + 9)) / 4 - 0.1)
    assert [s.tokens for s in second.sentences] == [4, 4, 2, 6]
    assert type(second.sentences[1].score) is float


def test_the_engine_heads_are_read_in_one_pass_with_calibration(attender: WordAttender) -> None:
    compressor = AttentionCompressor(attender)
    assert compressor.spec == AttentionSpec((Head(1, 1),), ("mean",), calibrated=True)
    compressor.compress(QUERY, scored(DEEP, "Fog."), Budget(30))
    assert attender.asked == [(("0", "1"), compressor.spec)]


def test_a_shared_pass_is_used_instead_of_the_engine(attender: WordAttender) -> None:
    shared = WordAttender(relevance)
    AttentionCompressor(attender, heads=HEADS).compress(QUERY, scored(DEEP), Budget(9), attender=shared)
    assert not attender.asked
    assert shared.asked == [(("0",), AttentionSpec(HEADS, ("mean",), calibrated=True))]


def test_sentinel_raw_averages_all_heads(attender: WordAttender) -> None:
    compressor = SentinelRawCompressor(attender)
    assert compressor.spec == AttentionSpec(None, ("last",))
    (result,) = compressor.compress(QUERY, scored("See harbour. See fog."), Budget(2))
    assert result.text == "See harbour."
    # A title token of 50 and words of 1, 9, 1 and 1: shares of 62, the same in both heads.
    assert [s.score for s in result.sentences] == pytest.approx([5 / 62, 1 / 62])


def test_budget_units(attender: WordAttender) -> None:
    compressor = AttentionCompressor(attender)
    for budget, expected in [
        (Budget(4), "The harbour is deep."),
        (Budget(0.25, "ratio"), "The harbour is deep."),
        (Budget(20, "characters"), "The harbour is deep."),
        (Budget(1.0, "ratio"), DEEP),
        (Budget(10_000), DEEP),
    ]:
        assert texts(compressor.compress(QUERY, scored(DEEP), budget)) == [expected]


def test_nothing_to_keep(attender: WordAttender) -> None:
    compressor = AttentionCompressor(attender)
    assert compressor.compress(QUERY, [], Budget(1)) == []
    results = compressor.compress(QUERY, scored("", " \n "), Budget(1))
    assert [(r.text, r.spans, r.sentences, r.tokens_before, r.tokens_after) for r in results] == [
        ("", (), (), 0, 0)
    ] * 2


def test_a_budget_of_one_token(attender: WordAttender) -> None:
    with pytest.raises(BudgetError, match="allows 1 tokens and the shortest of 4 sentences has 2: "):
        AttentionCompressor(attender).compress(QUERY, scored(DEEP), Budget(1))
    (result,) = AttentionCompressor(attender, min_keep=0).compress(QUERY, scored(DEEP), Budget(1))
    assert (result.text, len(result.sentences)) == ("", 4)
    assert texts(AttentionCompressor(attender).compress(QUERY, scored(DEEP, "Fog."), Budget(1))) == ["", "Fog."]


def test_one_sentence_at_half_its_length_is_refused_and_a_long_text_meets_its_ratio(attender: WordAttender) -> None:
    """Case 9: a requested rate is neither ignored for a short input nor overshot for a long one."""
    with pytest.raises(BudgetError, match="allows 20 tokens and the shortest of 1 sentences has 40"):
        AttentionCompressor(attender).compress(QUERY, scored("word " * 39 + "end."), Budget(0.5, "ratio"))
    text = " ".join(f"Ship {i} saw the harbour {i % 7} times." for i in range(900))
    (result,) = AttentionCompressor(attender).compress(QUERY, scored(text), Budget(0.5, "ratio"))
    assert 0.49 < result.tokens_after / result.tokens_before <= 0.5


def test_all_irrelevant_documents_still_give_the_best_sentence(attender: WordAttender) -> None:
    """Case 8: a compressor never leaves the next stage without context unless it was told so."""
    documents = scored("Snow lies there.", "The harbour lies there.", "Fog lies here.")
    kept = AttentionCompressor(attender, threshold=9.0).compress(QUERY, documents, Budget(50))
    assert texts(kept) == ["", "The harbour lies there.", ""]
    none = AttentionCompressor(attender, threshold=9.0, min_keep=0).compress(QUERY, documents, Budget(50))
    assert texts(none) == ["", "", ""]


def test_a_sentence_of_3000_words_is_cut(attender: WordAttender) -> None:
    words = ["word"] * 3000
    words[1500] = "harbour"
    (result,) = AttentionCompressor(attender).compress(QUERY, scored(" ".join(words)), Budget(100))
    assert result.tokens_after <= 100
    assert "harbour" in result.text
    assert len(result.sentences) == 38


def test_ten_thousand_sentences(attender: WordAttender) -> None:
    documents = scored(*(" ".join(f"Ship {i} is in the harbour." for i in range(1000)) for _ in range(10)))
    results = AttentionCompressor(attender).compress(QUERY, documents, Budget(0.2, "ratio"))
    assert sum(len(r.sentences) for r in results) == 10_000
    assert 0.19 * 60_000 < sum(r.tokens_after for r in results) <= 12_000


def test_document_weight_prefers_the_better_ranked_document(attender: WordAttender) -> None:
    documents = scored("Fog lies here.", "A harbour lies.")
    assert texts(AttentionCompressor(attender).compress(QUERY, documents, Budget(3))) == ["", "A harbour lies."]
    weighted = AttentionCompressor(attender, document_weight=1.0)
    assert texts(weighted.compress(QUERY, documents, Budget(3))) == ["Fog lies here.", ""]


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_scores_that_are_not_finite_are_an_error(value: str) -> None:
    attender = WordAttender(lambda word: float(value) if word == "Fog." else 1.0)
    with pytest.raises(ModelOutputError, match="1 sentence scores are not finite"):
        AttentionCompressor(attender).compress(QUERY, scored("Fog. Snow."), Budget(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "best"}, "'best'; accepted: mass, sum, best-first"),
        ({"min_keep": 2}, "0 or 1, given 2"),
        ({"document_weight": 1.5}, "from 0 to 1, given 1.5"),
        ({"max_words": 0}, "at least 1, given 0"),
    ],
)
def test_bad_options(attender: WordAttender, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AttentionCompressor(attender, **options)  # type: ignore[arg-type]
