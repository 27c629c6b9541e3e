from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from attention_maps import WordAttender, scored
from numpy.typing import NDArray

from rag.budget import Budget
from rag.compressors import BM25Compressor, DenseCompressor, FirstCompressor, RandomCompressor, WholeCompressor
from rag.errors import BudgetError, ConfigError
from rag.models import ResolvedModel
from rag.models.embedder import Embedder
from rag.registry import build, names
from rag.types import CompressedDocument, Query, Span

WORDS = WordAttender(lambda _: 1.0)
QUERY = Query("How deep is the harbour?")
TOWN = "The town is old. The harbours are deep. Boats rest."


def texts(results: list[CompressedDocument]) -> list[str]:
    return [result.text for result in results]


def test_first_takes_leading_sentences_of_every_document() -> None:
    documents = scored("One one. Two two. Three three.", "Uno uno. Dos dos.")
    compressor = FirstCompressor(WORDS)
    assert texts(compressor.compress(QUERY, documents, Budget(4))) == ["One one.", "Uno uno."]
    assert texts(compressor.compress(QUERY, documents, Budget(6))) == ["One one. Two two.", "Uno uno."]


def test_random_depends_on_seed_and_query_alone() -> None:
    documents = scored(" ".join(f"Sentence {i}." for i in range(50)))
    kept = [
        RandomCompressor(WORDS, seed=seed).compress(Query(text), documents, Budget(10))
        for seed, text in [(0, "a"), (0, "a"), (1, "a"), (0, "b")]
    ]
    assert kept[0] == kept[1]
    assert len({result[0].spans for result in kept}) == 3


def test_bm25_prefers_shared_terms_and_stems_them() -> None:
    (result,) = BM25Compressor(WORDS).compress(QUERY, scored(TOWN), Budget(4))
    assert result.text == "The harbours are deep."
    scores = [sentence.score for sentence in result.sentences]
    assert scores[1] > scores[0] > scores[2] == 0


def test_bm25_matches_text_without_spaces() -> None:
    compressor = BM25Compressor(WORDS, language="ja")
    (result,) = compressor.compress(Query("港の深さ"), scored("町は古い。港は深い。雨。"), Budget(5, "characters"))
    assert result.text == "港は深い。"


def test_earlier_turns_of_the_query_count() -> None:
    (result,) = BM25Compressor(WORDS).compress(Query("And now?", history=("The harbour",)), scored(TOWN), Budget(4))
    assert result.text == "The harbours are deep."


def test_whole_counts_in_the_named_tokenizer(minilm: ResolvedModel) -> None:
    documents = scored("Antidisestablishmentarianism.", "Fog.")
    kept = [item.text for item in WholeCompressor(WORDS, tokenizer=minilm.name).compress(QUERY, documents, Budget(3))]
    assert kept == ["", "Fog."]


@pytest.mark.parametrize("text", ["?! …", "。。。 ?"])
def test_bm25_on_text_without_a_word(text: str) -> None:
    (result,) = BM25Compressor(WORDS).compress(QUERY, scored(text), Budget(10))
    assert result.text == text


def test_bm25_on_a_query_without_a_word_scores_nothing() -> None:
    (result,) = BM25Compressor(WORDS).compress(Query("???"), scored(TOWN), Budget(4))
    assert [sentence.score for sentence in result.sentences] == [0, 0, 0]
    assert 0 < result.tokens_after <= 4


class Axes:
    """Embeds a text as its counts of a few words, normalised."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text."""
        rows = np.array([[text.count(word) for word in ("deep", "old", "rest", ".", "?")] for text in texts], float)
        return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9), dtype=np.float32)

    def encode_windows(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Two windows per text, its halves."""
        halves = [half for text in texts for half in (text[: len(text) // 2], text[len(text) // 2 :])]
        return self.encode(halves), np.repeat(np.arange(len(texts)), 2)


def test_dense_scores_are_cosines() -> None:
    (result,) = DenseCompressor(WORDS, Axes()).compress(Query("deep"), scored(TOWN), Budget(4))
    assert result.text == "The harbours are deep."
    # "deep." is in the second half of its sentence: the better half counts, not the last.
    assert [sentence.score for sentence in result.sentences] == pytest.approx([0, 0.5**0.5, 0])
    (result,) = DenseCompressor(WORDS, Axes()).compress(Query("deep"), scored("Deep deep sea and old sea."), Budget(9))
    assert [sentence.score for sentence in result.sentences] == pytest.approx([1])


def test_dense_with_the_real_embedder(minilm: ResolvedModel) -> None:
    embedder = Embedder(minilm.name)
    (result,) = DenseCompressor(WORDS, embedder).compress(
        Query("What do cats eat?"), scored("Trains leave at noon. A kitten feeds on fish. Tax is due."), Budget(5)
    )
    assert result.text == "A kitten feeds on fish."


def test_dense_reads_a_sentence_and_a_query_to_their_ends(minilm: ResolvedModel) -> None:
    embedder = Embedder(minilm.name)
    lists = ["stone and sand and gravel and " * 60 + end for end in ("the clerk files a tax form", "kittens eat fish")]
    assert all(max(embedder.token_counts([text])) > 256 for text in lists)
    compressor = DenseCompressor(WORDS, embedder, max_words=1000)
    for query, best in (("What do cats eat?", 1), ("taxes and paperwork", 0)):
        results = compressor.compress(Query(query), scored(*lists), Budget(1.0, "ratio"))
        scores = [result.sentences[0].score for result in results]
        assert int(np.argmax(scores)) == best
        assert max(scores) > min(scores) + 0.1
    long_query = Query("Tell me, among all this, " + "sand and gravel and " * 80 + "what do cats and kittens eat?")
    cat, train = compressor.compress(long_query, scored("Kittens eat fish.", "Trains leave at noon."), Budget(99))
    assert cat.sentences[0].score > train.sentences[0].score + 0.05


def test_whole_keeps_whole_documents_that_fit_in_rank_order() -> None:
    documents = scored(" One two three.\n", "A b c d e f.", "", "Uno dos.")
    results = WholeCompressor(WORDS).compress(QUERY, documents, Budget(6))
    assert texts(results) == ["One two three.", "", "", "Uno dos."]
    assert [result.spans for result in results] == [(Span(1, 15),), (), (), (Span(0, 8),)]
    assert [(result.tokens_before, result.tokens_after) for result in results] == [(3, 3), (6, 0), (0, 0), (2, 2)]
    assert [[s.kept for s in result.sentences] for result in results] == [[True], [False], [], [True]]
    assert all(
        result.spans for result in WholeCompressor(WORDS).compress(QUERY, scored("A b.", "C."), Budget(1, "ratio"))
    )


def test_whole_refuses_a_budget_below_the_shortest_document() -> None:
    with pytest.raises(BudgetError, match="allows 1 tokens and the shortest of 2 documents has 2: "):
        WholeCompressor(WORDS).compress(QUERY, scored("A b c.", "D e."), Budget(1))
    assert texts(WholeCompressor(WORDS, min_keep=0).compress(QUERY, scored("A b c."), Budget(1))) == [""]
    assert WholeCompressor(WORDS).compress(QUERY, [], Budget(1)) == []


def test_every_compressor_is_built_from_its_name() -> None:
    own = ("attention", "bm25", "dense", "first", "random", "sentinel-raw", "whole")
    assert set(own) <= set(names("compressor"))
    parts = {"engine": lambda: WORDS, "embedder": Axes}
    for name in own:
        stage = build("compressor", name, {"min_keep": 0}, parts)
        assert texts(stage.compress(QUERY, scored(TOWN), Budget(100))) == [TOWN]
    with pytest.raises(ConfigError, match=r"min_keep: .*given 3.*accepted options: .*threshold"):
        build("compressor", "bm25", {"min_keep": 3}, parts)


def test_a_sentence_without_a_score_counts_as_the_weakest_and_is_kept_where_there_is_room():
    from rag.compressors.base import _with_floor

    filled = _with_floor([np.array([2.0, -np.inf]), np.array([]), np.array([-1.0])])
    assert [list(of) for of in filled] == [[2.0, -1.0], [], [-1.0]]
    assert [list(of) for of in _with_floor([np.array([-np.inf])])] == [[0.0]]
