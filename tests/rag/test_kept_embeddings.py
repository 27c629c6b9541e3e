"""What was embedded before is not embedded again, within the bound in bytes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from word_embedder import DIMENSION, WordEmbedder

from rag.errors import BudgetError, NotTextError
from rag.kept_embeddings import DEFAULT_BYTES, KeptEmbeddings
from rag.models.embedder import Embedder

LONG = "the tide tables list high water for every harbour on the long coast of the island"
ONE_WINDOW = DIMENSION * 4 + 256


def test_vectors_are_those_of_the_embedder_and_each_text_is_embedded_once(minilm):
    embedder = Embedder(minilm.name)
    kept = KeptEmbeddings(embedder)
    texts = ["How deep is the harbour?", "tide " * 300, "How deep is the harbour?"]
    for _ in range(2):
        assert kept.encode(texts) == pytest.approx(embedder.encode(texts), abs=1e-5)
        windows, owners = kept.encode_windows(texts)
        expected, whose = embedder.encode_windows(texts)
        assert windows == pytest.approx(expected, abs=1e-5)
        assert owners.tolist() == whose.tolist()
    assert kept.encode([]).shape == (0, embedder.dimension)
    assert kept.token_counts(["tide"]) == embedder.token_counts(["tide"])


def test_only_what_is_new_is_embedded():
    words = WordEmbedder()
    kept = KeptEmbeddings(words)
    kept.encode(["lamp", LONG, "lamp"])
    kept.encode_windows(["tide", LONG])
    assert words.embedded == ["lamp", LONG, "tide"]
    kept.clear()
    kept.encode(["lamp"])
    assert words.embedded[-1] == "lamp"


def test_without_room_everything_is_embedded_each_time():
    words = WordEmbedder()
    kept = KeptEmbeddings(words, 0)
    assert kept.encode(["lamp"]) == pytest.approx(kept.encode(["lamp"]))
    assert words.embedded == ["lamp", "lamp"]
    assert kept.nbytes == 0


def test_the_least_recently_used_go_first():
    words = WordEmbedder()
    kept = KeptEmbeddings(words, 2 * ONE_WINDOW)
    for text in ("a", "b", "a", "c", "a", "b"):
        kept.encode([text])
    assert words.embedded == ["a", "b", "c", "b"]


@given(st.lists(st.lists(st.text(max_size=60), max_size=5), max_size=10))
def test_the_bound_is_never_exceeded_and_answers_never_differ(requests):
    kept = KeptEmbeddings(WordEmbedder(), 3 * ONE_WINDOW)
    for texts in requests:
        found, owners = kept.encode_windows(texts)
        expected, whose = WordEmbedder().encode_windows(texts)
        assert np.array_equal(owners, whose)
        assert found.size == expected.size
        assert found.size == 0 or np.array_equal(found, expected)
        assert kept.nbytes <= 3 * ONE_WINDOW


def test_threads_may_ask_at_once():
    kept = KeptEmbeddings(WordEmbedder(), 4 * ONE_WINDOW)
    texts = [f"word{number} and more" for number in range(12)] * 8
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: kept.encode([text])[0], texts))
    assert np.array_equal(np.array(found), WordEmbedder().encode(texts))


def test_one_that_remembers_is_not_wrapped_again():
    kept = KeptEmbeddings(WordEmbedder())
    assert KeptEmbeddings.over(kept, DEFAULT_BYTES) is kept


def test_bad_input():
    with pytest.raises(BudgetError, match="embedding_cache_bytes must be at least 0, given -1"):
        KeptEmbeddings(WordEmbedder(), -1)
    with pytest.raises(NotTextError, match=r"texts\[1\] must be a string, got int"):
        KeptEmbeddings(WordEmbedder()).encode(["a", 3])
    with pytest.raises(NotTextError, match="got one string"):
        KeptEmbeddings(WordEmbedder()).encode("lamp")
