from __future__ import annotations

import math

import pytest

from rag.errors import ConfigError, DuplicateIdsError
from rag.registry import build
from rag.retrievers import BM25, Dense, Fused
from rag.types import Document, Query


def ids(results):
    return [found.document.id for found in results]


def test_score_and_trace_by_hand(embedder, corpus):
    [found] = Fused(embedder, method="rrf").index(corpus).retrieve([Query("harbour boats")], k=5)
    best = found[0]
    assert best.document.id == "boats"
    assert best.score == pytest.approx(1 / 61 + 1 / 61)
    assert best.trace["bm25"] == BM25().index(corpus).retrieve([Query("harbour boats")], k=1)[0][0].score
    assert best.trace["dense"] == Dense(embedder).index(corpus).retrieve([Query("harbour boats")], k=1)[0][0].score
    assert (best.trace["bm25_rank"], best.trace["dense_rank"]) == (1, 1)


def test_whole_corpus_comes_back_with_documents_without_text_last(embedder, corpus):
    [found] = Fused(embedder).index(corpus).retrieve([Query("bread")], k=50)
    assert sorted(ids(found)) == sorted(document.id for document in corpus)
    assert (ids(found)[0], ids(found)[-1]) == ("bread", "blank")


@pytest.mark.parametrize("method", ["rrf", "zscore", "minmax", "interleave"])
def test_a_query_without_a_known_word_is_left_to_the_dense_member(embedder, corpus, method):
    embeds_alike = [Document("z", "zebra"), Document("y", "yak zebra")]
    documents = [*embeds_alike, *corpus]
    retriever = Fused(embedder, members={"bm25": {"stopwords": ["zebra"]}, "dense": {}}, method=method)
    [found] = retriever.index(list(reversed(documents))).retrieve([Query("zebra")], k=2)
    assert ids(found) == ["z", "y"]


def test_no_evidence_from_anyone_gives_corpus_order_with_documents_without_text_last(corpus):
    [found] = Fused(members={"bm25": {}}).index(corpus).retrieve([Query("zebra")], k=9)
    assert ids(found) == ["tide", "lamp", "boats", "bread", "blank"]
    assert {result.score for result in found} == {0.0}


def test_depth_limits_what_each_member_gives_but_never_below_k(embedder):
    documents = [Document(str(i), f"harbour {'wall ' * i}") for i in range(30)]
    index = Fused(embedder, depth=3).index(documents)
    [few] = index.retrieve([Query("harbour")], k=2)
    assert max(result.trace.get("dense_rank", 0) for result in few) <= 3
    assert len(index.retrieve([Query("harbour")], k=30)[0]) == 30


def test_equal_scores_keep_corpus_order():
    documents = [Document(name, f"{name} harbour") for name in ("one", "two", "three")]

    class Only:
        """A retriever that knows one ranking."""

        def __init__(self, order):
            self.order = order

        def index(self, documents):
            self.documents = {document.id: document for document in documents}
            return self

        def retrieve(self, queries, k):
            from rag.types import ScoredDocument

            ranked = [ScoredDocument(self.documents[name], 9.0 - i, i + 1) for i, name in enumerate(self.order)]
            return [ranked[:k] for _ in queries]

    fused = Fused.of({"up": Only(["one", "two", "three"]), "down": Only(["three", "two", "one"])}, method="rrf")
    [found] = fused.index(documents).retrieve([Query("harbour")], k=3)
    assert ids(found) == ["one", "three", "two"]
    assert found[0].score == found[1].score == math.fsum([1 / 61, 1 / 63])
    assert found[0].trace == {"up": 9.0, "up_rank": 1, "down": 7.0, "down_rank": 3}


def test_index_leaves_the_retriever_as_it_was(embedder, corpus):
    retriever = Fused(embedder)
    first = retriever.index(corpus)
    retriever.index([Document("only", "harbour")])
    assert len(first.retrieve([Query("harbour")], k=9)[0]) == len(corpus)


def test_built_by_name_from_a_configuration(embedder, corpus):
    options = {"members": {"bm25": {"k1": 1.2}, "rank-bm25": {}}, "depth": 10, "method": "interleave"}
    built = build("retriever", "fused", options, {"embedder": lambda: embedder})
    [found] = built.index(corpus).retrieve([Query("lamp")], k=1)
    assert ids(found) == ["lamp"]
    assert set(found[0].trace) == {"bm25", "bm25_rank", "rank-bm25", "rank-bm25_rank"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": {}}, "at least one member"),
        ({"members": {"bm42": {}}}, "known: .*bm25"),
        ({"members": {"bm25": {"k2": 1}}}, "accepted options: k1"),
        ({"members": {"dense": {}}, "embedder": None}, "embedder"),
        ({"depth": 0}, "at least 1"),
        ({"k0": -1}, "at least 0"),
        ({"method": "magic"}, "accepted: rrf"),
    ],
)
def test_bad_options(embedder, options, message):
    with pytest.raises(ConfigError, match=message):
        Fused(**{"embedder": embedder, **options})


def test_duplicate_ids(embedder):
    with pytest.raises(DuplicateIdsError, match="'a'"):
        Fused(embedder).index([Document("a", "x"), Document("a", "y")])
