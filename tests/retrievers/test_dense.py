from __future__ import annotations

import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag.errors import InputError, ModelOutputError
from rag.kept_embeddings import KeptEmbeddings
from rag.retrievers.dense import Dense
from rag.types import Document, Query


def ids(results):
    return [found.document.id for found in results]


def test_score_is_the_cosine(embedder):
    documents = [Document("a", "harbour wall"), Document("b", "harbour"), Document("c", "lamp")]
    [found] = Dense(embedder).index(documents).retrieve([Query("harbour")], k=3)
    assert ids(found) == ["b", "a", "c"]
    assert [result.score for result in found] == pytest.approx([1, 2**-0.5, 0], abs=1e-6)
    assert found[0].trace == {"dense": found[0].score}
    assert type(found[0].score) is float


def test_the_tail_of_a_long_document_can_win(embedder):
    long = Document("long", "sand " * 90 + "the harbour is fourteen metres deep")
    documents = [Document("short", "boats harbour and other words"), long]
    [found] = Dense(embedder).index(documents).retrieve([Query("the harbour is fourteen metres deep")], k=2)
    assert ids(found) == ["long", "short"]


def test_documents_of_many_windows_do_not_push_others_out(embedder):
    documents = [Document("long", "harbour " * 500), Document("b", "harbour b"), Document("c", "harbour c d")]
    [found] = Dense(embedder).index(documents).retrieve([Query("harbour")], k=3)
    assert ids(found) == ["long", "b", "c"]


texts_of_any_length = st.lists(st.lists(st.sampled_from(["tide", "lamp", "boat", "salt"]), max_size=30), max_size=25)


@given(texts=texts_of_any_length, k=st.integers(1, 30))
def test_equals_exhaustive_scoring(make_embedder, texts, k):
    embedder = make_embedder()
    documents = [Document(str(i), " ".join(words)) for i, words in enumerate(texts)]
    query = embedder.encode(["lamp tide tide"])[0]
    scores = []
    for document in documents:
        windows, _ = embedder.encode_windows([document.text])
        scores.append(float(np.max(windows @ query)) if document.text else -1.0)
    [found] = Dense(embedder).index(documents).retrieve([Query("lamp tide tide")], k)
    assert [result.score for result in found] == pytest.approx(sorted(scores, reverse=True)[:k], abs=1e-6)
    assert len(set(ids(found))) == min(k, len(documents))


def test_copies_tie_exactly_and_keep_corpus_order(embedder):
    documents = [Document(str(i), "harbour wall and lamp" if i % 3 else f"number {i}") for i in range(300)]
    queries = [Query(f"the wall of harbour {i}") for i in range(50)]
    copies = [document.id for i, document in enumerate(documents) if i % 3]
    for found in Dense(embedder).index(documents).retrieve(queries, k=40):
        assert ids(found) == copies[:40]
        assert len({result.score for result in found}) == 1


def test_a_query_scores_the_same_alone_and_in_a_batch():
    index = Dense(RandomEmbedder()).index([Document(str(i), f"text {i}") for i in range(333)])
    queries = [Query(f"query {i}") for i in range(45)]
    assert index.retrieve(queries, k=7) == [index.retrieve([query], k=7)[0] for query in queries]


def test_documents_without_text_come_last_and_are_not_embedded(embedder, corpus):
    [found] = Dense(embedder).index(corpus).retrieve([Query("lamp")], k=9)
    assert ids(found)[0] == "lamp"
    assert (found[-1].document.id, found[-1].score) == ("blank", -1.0)
    assert "   " not in embedder.embedded


def test_corpora_without_text(embedder):
    blank = Dense(embedder).index([Document("1", ""), Document("2", " ")])
    assert [ids(found) for found in blank.retrieve([Query("lamp")], k=5)] == [["1", "2"]]
    assert Dense(embedder).index([]).retrieve([Query("lamp")], k=5) == [[]]


def test_equal_texts_are_embedded_once_where_the_embedder_remembers(embedder):
    retriever = Dense(KeptEmbeddings(embedder))
    retriever.index([Document("a", "harbour"), Document("b", "lamp"), Document("c", "harbour")])
    assert embedder.embedded == ["harbour", "lamp"]
    second = retriever.index([Document("x", "tide"), Document("y", "lamp")])
    assert embedder.embedded == ["harbour", "lamp", "tide"]
    assert ids(second.retrieve([Query("lamp")], k=1)[0]) == ["y"]


def test_values_that_are_not_finite_are_an_error():
    with pytest.raises(ModelOutputError, match="finite"):
        Dense(Constant([np.nan, 0])).index([Document("a", "harbour")])
    index = Dense(Constant([1, 0])).index([Document("a", "harbour")])
    index.embedder = Constant([np.inf, 0])
    with pytest.raises(ModelOutputError, match="finite"):
        index.retrieve([Query("harbour")], k=1)


def test_bad_input(embedder, corpus):
    with pytest.raises(InputError, match="at least 1, given -2"):
        Dense(embedder).index(corpus).retrieve([Query("harbour")], k=-2)


def test_threads_share_an_index_and_what_is_remembered(embedder, corpus):
    retriever = Dense(KeptEmbeddings(embedder))
    queries = [Query(text) for text in ("harbour", "lamp", "bread and water", "tide tables")] * 10
    expected = retriever.index(corpus).retrieve(queries, k=3)
    with ThreadPoolExecutor(8) as pool:
        parallel = list(pool.map(lambda query: retriever.index(corpus).retrieve([query], k=3)[0], queries))
    assert parallel == expected


class Constant:
    """Embeds every text as one given vector."""

    def __init__(self, vector: Sequence[float]) -> None:
        self.vector = np.array(vector, dtype=np.float32)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.tile(self.vector, (len(texts), 1))

    def encode_windows(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        return self.encode(texts), np.arange(len(texts))


class RandomEmbedder:
    """A dense random direction per text, so that last digits of inner products matter."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        drawn = [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(384) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in drawn], dtype=np.float32)

    def encode_windows(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        return self.encode(texts), np.arange(len(texts))
