"""What every sentence compressor does at the edges and with each of its options: what its docstring promises."""

from __future__ import annotations

import json
import time

import pytest
from attention_maps import WordAttender, scored

from rag.budget import Budget
from rag.compressors import AttentionCompressor, BM25Compressor, FirstCompressor, SentenceCompressor
from rag.errors import BudgetError, ConfigError
from rag.models import ResolvedModel
from rag.types import CompressedDocument, Document, Query, ScoredDocument

QUERY = Query("How deep is the harbour?")
WORDS = WordAttender(lambda word: 9.0 if "deep" in word else 1.0)
COMPRESSORS = [AttentionCompressor(WORDS), BM25Compressor(WORDS), FirstCompressor(WORDS)]
EACH = pytest.mark.parametrize("compressor", COMPRESSORS, ids=lambda stage: type(stage).__name__)


def texts(results: list[CompressedDocument]) -> list[str]:
    return [result.text for result in results]


@EACH
def test_no_document_gives_no_result(compressor: SentenceCompressor) -> None:
    assert compressor.compress(QUERY, [], Budget(1)) == []


@EACH
def test_white_space_alone_gives_results_without_sentences(compressor: SentenceCompressor) -> None:
    results = compressor.compress(QUERY, scored("", " \n\t", "\u2028"), Budget(1))
    assert [(item.text, item.spans, item.sentences, item.tokens_after) for item in results] == [("", (), (), 0)] * 3


@EACH
def test_one_sentence_is_kept_or_the_budget_is_impossible(compressor: SentenceCompressor) -> None:
    assert texts(compressor.compress(QUERY, scored(" It is deep. "), Budget(3))) == ["It is deep."]
    with pytest.raises(BudgetError, match="allows 2 tokens and the shortest of 1 sentences has 3:"):
        compressor.compress(QUERY, scored("It is deep."), Budget(2))


@EACH
def test_a_budget_of_one_token(compressor: SentenceCompressor) -> None:
    assert "".join(texts(compressor.compress(QUERY, scored("Deep. It is wide.", "Fog."), Budget(1)))) in (
        "Deep.",
        "Fog.",
    )
    with pytest.raises(BudgetError, match=r"allows 1 tokens .* has 2:"):
        compressor.compress(QUERY, scored("Very deep. It is wide."), Budget(1))


@EACH
def test_a_sentence_of_3000_words_is_cut_and_the_budget_holds(compressor: SentenceCompressor) -> None:
    text = " ".join(f"word{i}" for i in range(3000)) + " deep."
    (result,) = compressor.compress(QUERY, scored(text), Budget(200))
    assert 100 < result.tokens_after <= 200
    assert len(result.sentences) == 38
    assert all(piece in text for piece in result.text.split(" … "))


@EACH
def test_10000_sentences(compressor: SentenceCompressor) -> None:
    text = " ".join(f"Sentence {i} says {'deep' if i == 7777 else 'nothing'}." for i in range(10_000))
    started = time.perf_counter()
    (result,) = compressor.compress(QUERY, scored(text), Budget(2000))
    assert time.perf_counter() - started < 60
    assert len(result.sentences) == 10_000
    assert 1900 < result.tokens_after <= 2000
    assert result.tokens_after == len(result.text.split())
    if not isinstance(compressor, FirstCompressor):
        assert "Sentence 7777 says deep." in result.text


TABLE = "| depth | m |\n|---|---|\n| quay | 14 |\n| river | 3. Low |"
CODE = "```py\nx = 1. # deep. Really\n\ny = 2\n```"


@EACH
@pytest.mark.parametrize("block", [TABLE, CODE], ids=["table", "code"])
@pytest.mark.parametrize("limit", [3, 9, 14, 18, 23, 30])
def test_tables_and_code_are_kept_or_dropped_whole(compressor: SentenceCompressor, block: str, limit: int) -> None:
    (result,) = compressor.compress(
        QUERY, scored(f"Fog is common.\n\n{block}\n\nThe harbour is deep. End."), Budget(limit)
    )
    assert result.tokens_after <= limit
    assert block in result.text or not set(block.split()) & set(result.text.split()) - {"deep."}


def test_protected_sentences_are_kept_whatever_they_score() -> None:
    text = "It is deep here. Deep and deep. See § 12 for fees. Deep."
    (result,) = AttentionCompressor(WORDS, protect=("§",), threshold=100.0).compress(QUERY, scored(text), Budget(6))
    assert "See § 12 for fees." in result.text
    named = Document("0", text, metadata={"protected_spans": [[0, 2], [20, 21]]})
    for objective in ("mass", "sum", "best-first"):
        compressor = FirstCompressor(WORDS, protect=("§",), objective=objective)
        (result,) = compressor.compress(QUERY, [ScoredDocument(named, 0.0, 1)], Budget(13))
        assert result.text.startswith("It is deep here. Deep and deep.")
        assert "See § 12 for fees." in result.text
        with pytest.raises(BudgetError, match="allows 11 tokens and the 3 protected sentences have 12: accepted is"):
            compressor.compress(QUERY, [ScoredDocument(named, 0.0, 1)], Budget(11))


def test_a_heading_comes_with_the_best_sentence_under_it() -> None:
    text = "# Town\n\nOld and small. Fog is common.\n\n# Port\n\nGulls nest there. Very deep deep deep."
    (result,) = AttentionCompressor(WORDS).compress(QUERY, scored(text), Budget(7))
    assert result.text == "# Port … Very deep deep deep."
    assert [s.score for s in result.sentences][3] < 3  # what it was lent is not in its score
    (result,) = AttentionCompressor(WORDS, headings=False).compress(QUERY, scored(text), Budget(7))
    assert "# Port" not in result.text


def test_a_sentence_that_opens_with_a_pronoun_brings_the_one_before() -> None:
    text = "The harbour of Kestrel Point. It is deep. Rain deep rain and rain."
    for neighbours, kept in ((False, False), (True, True)):
        compressor = AttentionCompressor(WORDS, neighbours=neighbours)
        (result,) = compressor.compress(QUERY, scored(text), Budget(8))
        assert ("The harbour of Kestrel Point. It is deep." in result.text) == kept
    with pytest.raises(ConfigError, match="known: en"):
        AttentionCompressor(WORDS, neighbours=True, language="fr")


def test_repetitions_across_documents_are_kept_once_but_headings_are_not_repetitions() -> None:
    first = "# Port\n\nThe harbour is deep and wide. Gulls nest."
    second = "# Port\n\nThe harbour is deep and wide! Fog falls."
    results = AttentionCompressor(WORDS, redundancy=0.8).compress(QUERY, scored(first, second), Budget(99))
    assert texts(results) == [first, "# Port … Fog falls."]
    results = AttentionCompressor(WORDS).compress(QUERY, scored(first, second), Budget(99))
    assert texts(results) == [first, second]


def test_documents_below_a_score_are_dropped_but_min_keep_goes_first() -> None:
    documents = scored("Wide.", "Deep deep.", "Deep.")  # scored 0, -1, -2
    compressor = AttentionCompressor(WORDS, document_threshold=-1.0)
    assert texts(compressor.compress(QUERY, documents, Budget(99))) == ["Wide.", "Deep deep.", ""]
    compressor = AttentionCompressor(WORDS, document_threshold=1.0)
    assert sum(bool(item.spans) for item in compressor.compress(QUERY, documents, Budget(99))) == 1
    compressor = AttentionCompressor(WORDS, document_threshold=1.0, min_keep=0)
    assert texts(compressor.compress(QUERY, documents, Budget(99))) == ["", "", ""]


def test_the_budget_is_counted_by_the_named_tokenizer(minilm: ResolvedModel) -> None:
    from rag.compressors.tokens import NamedTokenizer

    reader = NamedTokenizer(minilm.name)
    documents = scored("The harbourmaster is unquestionably deep. Fog. Antidisestablishmentarianism rules the town.")
    for limit in (3, 9, 12, 15, 20):
        (result,) = BM25Compressor(WORDS, tokenizer=minilm.name).compress(QUERY, documents, Budget(limit))
        assert result.tokens_after == reader.count_tokens([result.text])[0] <= limit
        assert result.tokens_before == reader.count_tokens([documents[0].document.text])[0]


def test_scores_of_results_are_json() -> None:
    (result,) = AttentionCompressor(WORDS, neighbours=True, redundancy=0.5).compress(
        QUERY, scored("A b. It c."), Budget(9)
    )
    assert json.dumps([sentence.score for sentence in result.sentences])


@pytest.mark.parametrize("redundancy", [0, 1.1, float("nan")])
def test_bad_options(redundancy: float) -> None:
    with pytest.raises(ConfigError, match="redundancy must be above 0"):
        BM25Compressor(WORDS, redundancy=redundancy)
