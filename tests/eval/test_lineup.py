from __future__ import annotations

import pytest

from rag.config import Settings, StageSettings
from rag.errors import ArtefactError, ConfigError
from rag.eval.collections import Collection
from rag.eval.lineup import Lineup
from rag.eval.systems import Found, found, from_run, tokens_per_query
from rag.retrievers import BM25
from rag.types import Document, Query

WORDS = ("harbour", "lamp", "bread", "tide")


@pytest.fixture
def collection():
    documents = tuple(Document(f"d{i}", f"the {word} of the town") for i, word in enumerate(WORDS))
    queries = tuple(Query(word, f"q{i}") for i, word in enumerate(WORDS))
    return Collection("words", documents, queries, {f"q{i}": {f"d{i}": 1} for i in range(len(WORDS))})


class Counting:
    """A retriever that says what is asked of it."""

    def __init__(self, stop_after=None):
        self.indexed = 0
        self.asked = []
        self._inner = BM25()
        self._stop_after = stop_after

    def index(self, documents):
        self.indexed += 1
        self._inner = self._inner.index(documents)
        return self

    def retrieve(self, queries, k):
        if len(self.asked) == self._stop_after:
            raise KeyboardInterrupt
        self.asked += [query.id for query in queries]
        return self._inner.retrieve(queries, k)


def test_stored_lists_are_read_and_an_interrupt_loses_one_query(collection, tmp_path):
    interrupted = Counting(stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        found(collection, interrupted, 3, store=tmp_path, identity={"name": "x"})
    resumed = Counting()
    lists = found(collection, resumed, 3, store=tmp_path, identity={"name": "x"})
    assert (interrupted.asked, resumed.asked) == (["q0", "q1"], ["q2", "q3"])
    fresh = found(collection, Counting(), 3)
    assert lists.lists == fresh.lists  # scores, ranks and traces too
    again = Counting()
    assert found(collection, again, 3, store=tmp_path, identity={"name": "x"}).lists == fresh.lists
    assert again.indexed == 0
    assert len(lists.seconds) == 4


def test_stored_lists_belong_to_their_data_and_settings(collection, tmp_path):
    changed = (*collection.documents[:3], Document("d3", "another text"))
    found(collection, Counting(), 3, store=tmp_path, identity={"name": "x"})
    for other, k, name in (
        (collection, 2, "x"),
        (collection, 3, "y"),
        (Collection("words", changed, collection.queries, {}), 3, "x"),
    ):
        retriever = Counting()
        found(other, retriever, k, store=tmp_path, identity={"name": name})
        assert retriever.indexed == 1
    assert len(list(tmp_path.iterdir())) == 4


def test_a_damaged_store_is_refused(collection, tmp_path):
    found(collection, Counting(), 3, store=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace('"seconds"', "seconds", 1))
    with pytest.raises(ArtefactError, match="line 2 is damaged"):
        found(collection, Counting(), 3, store=tmp_path)


def test_a_document_with_the_querys_id_is_left_out_before_the_cut():
    documents = (Document("a", "tides rise at noon"), Document("b", "tides rise"), Document("c", "tides"))
    collection = Collection("arguana", documents, (Query("tides rise at noon", "a"),), {"a": {"b": 1}})
    kept = found(collection, BM25(), 2).lists["a"]
    left = found(collection, BM25(), 2, remove_self=True).lists["a"]
    assert [item.document.id for item in kept] == ["a", "b"]
    assert [(item.document.id, item.rank) for item in left] == [("b", 1), ("c", 2)]
    given = from_run(collection, {"a": [("a", 2.0), ("b", 1.0)]}, 1, remove_self=True)
    assert [(item.document.id, item.rank) for item in given.lists["a"]] == [("b", 1)]


def test_pipelines_with_one_retriever_share_its_index_and_lists(collection, monkeypatch):
    indexed = []
    build = BM25._build
    monkeypatch.setattr(BM25, "_build", lambda self, documents: (indexed.append(self.k1), build(self, documents))[1])
    lineup = Lineup(collection, 3)
    common = {"reranker": None, "compressor": None}
    lineup.add_pipeline("one", Settings(retriever="bm25", **common))
    lineup.add_pipeline("two", Settings(retriever="bm25", top_n=1, **common))
    lineup.add_pipeline("short", Settings(retriever="bm25", retrieve_k=2, top_n=1, **common))
    lineup.add_retriever("alone", StageSettings(name="bm25"), Settings())
    assert indexed == [0.9]
    assert lineup.systems["one"] is lineup.systems["two"]
    assert {len(items) for items in lineup.systems["short"].lists.values()} == {2}
    lineup.add_pipeline("other", Settings(retriever={"name": "bm25", "options": {"k1": 1.5}}, **common))
    assert indexed == [0.9, 1.5]
    assert lineup.identities["other"]["retriever"] == {"name": "bm25", "options": {"k1": 1.5}}


def test_labels_and_candidates_are_checked(collection):
    lineup = Lineup(collection, 3)
    lineup.add_retriever("bm25", StageSettings(name="bm25"), Settings())
    with pytest.raises(ConfigError, match="two systems are called 'bm25'"):
        lineup.add_pipeline("bm25", Settings(retriever="bm25", reranker=None))
    with pytest.raises(ConfigError, match="candidates from 'fused'; accepted: bm25"):
        lineup.add_reranker("icr", StageSettings(name="icr"), Settings(), "fused")


def test_tokens_are_those_of_the_lists_documents(collection):
    lists = found(collection, BM25(), 2)
    counted = []

    def count(texts):
        counted.extend(texts)
        return [len(text.split()) for text in texts]

    assert tokens_per_query(lists, count) == {"mean": 10.0, "p50": 10.0, "p95": 10.0}
    assert len(counted) == len(set(counted))
    assert Found({"q": []}).timings() == {}
