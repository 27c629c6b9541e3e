from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from rag.errors import ConfigError, DuplicateIdsError, InputError
from rag.registry import stage_class
from rag.retrievers.bm25 import BM25, RankBM25
from rag.stages import Retriever
from rag.types import Document, Query

BOTH = pytest.mark.parametrize("retriever", [BM25(), RankBM25()], ids=["bm25", "rank-bm25"])


def ids(results):
    return [found.document.id for found in results]


@BOTH
def test_finds_the_documents_that_share_words(retriever, corpus):
    [found] = retriever.index(corpus).retrieve([Query("harbour boats")], k=2)
    assert ids(found) == ["boats", "tide"]
    assert [result.rank for result in found] == [1, 2]
    assert found[0].score > found[1].score > 0
    assert found[0].trace == {retriever.name: found[0].score}
    assert type(found[0].score) is float


def test_score_is_lucenes_formula():
    documents = [Document("a", "harbour harbour wall"), Document("b", "wall"), Document("c", "lighthouse keeper")]
    [found] = BM25(k1=0.9, b=0.4).index(documents).retrieve([Query("harbour")], k=3)
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    tf = 2 / (2 + 0.9 * (1 - 0.4 + 0.4 * 3 / 2))
    assert found[0].score == pytest.approx(idf * tf, rel=1e-6)
    assert [result.score for result in found[1:]] == [0, 0]


@BOTH
def test_title_counts(retriever):
    documents = [Document("a", "nothing"), Document("b", "of note", title="Harbour"), Document("c", "else")]
    [found] = retriever.index(documents).retrieve([Query("harbour")], k=1)
    assert ids(found) == ["b"]


@BOTH
def test_k_above_the_corpus_gives_all_documents_with_those_without_text_last(retriever, corpus):
    [found] = retriever.index(corpus).retrieve([Query("lighthouse")], k=50)
    assert ids(found) == ["lamp", "tide", "boats", "bread", "blank"]


@BOTH
@pytest.mark.parametrize("query", ["zebra", "the of and", "?!"])
def test_query_without_a_known_word_gives_the_corpus_in_order_with_zeros(retriever, corpus, query):
    [found] = retriever.index(corpus).retrieve([Query(query)], k=5)
    assert ids(found) == ["tide", "lamp", "boats", "bread", "blank"]
    assert {result.score for result in found} == {0.0}


@BOTH
def test_corpus_of_empty_documents(retriever):
    documents = [Document("1", ""), Document("2", "  "), Document("3", "")]
    [found] = retriever.index(documents).retrieve([Query("lamp")], k=2)
    assert ids(found) == ["1", "2"]
    assert {result.score for result in found} == {0.0}


@BOTH
def test_empty_corpus_and_no_queries(retriever, corpus):
    assert retriever.index([]).retrieve([Query("lamp"), Query("tide")], k=3) == [[], []]
    assert retriever.index(corpus).retrieve([], k=3) == []


@BOTH
def test_equal_documents_keep_corpus_order_across_the_cut(retriever):
    documents = [Document("filler", "lighthouse keeper")] + [Document(str(i), "harbour wall") for i in range(200)]
    documents += [Document(f"other {i}", "lamp oil") for i in range(300)]
    [found] = retriever.index(documents).retrieve([Query("harbour")], k=50)
    assert ids(found) == [str(i) for i in range(50)]


def test_chinese_and_thai_are_searchable():
    documents = [Document("a", "我爱北京天安门"), Document("b", "上海的天气很好"), Document("c", "ฉันรักภาษาไทย")]
    index = BM25().index(documents)
    answers = index.retrieve([Query("北京"), Query("天气"), Query("海"), Query("ภาษา")], k=1)
    assert [ids(found) for found in answers] == [["a"], ["b"], ["b"], ["c"]]
    assert all(found[0].score > 0 for found in answers)


def test_index_leaves_the_retriever_and_the_input_as_they_were(corpus):
    retriever = BM25()
    before = list(corpus)
    first, second = retriever.index(corpus), retriever.index([Document("only", "harbour")])
    corpus.clear()
    assert len(first.retrieve([Query("harbour")], k=9)[0]) == len(before)
    assert ids(second.retrieve([Query("harbour")], k=9)[0]) == ["only"]
    with pytest.raises(InputError, match=r"index\(documents\)"):
        retriever.retrieve([Query("harbour")], k=1)


@BOTH
def test_bad_input(retriever, corpus):
    with pytest.raises(DuplicateIdsError, match="'tide'"):
        retriever.index([*corpus, Document("tide", "again")])
    with pytest.raises(InputError, match="at least 1, given 0"):
        retriever.index(corpus).retrieve([Query("harbour")], k=0)


@pytest.mark.parametrize("options", [{"k1": -1}, {"k1": math.nan}, {"b": 1.5}, {"language": "klingon"}])
def test_bad_options(options):
    with pytest.raises(ConfigError):
        BM25(**options)


def test_threads_share_an_index(corpus):
    index = BM25().index(corpus)
    queries = [Query(text) for text in ("harbour", "lamp", "bread water", "tide tables")] * 50
    with ThreadPoolExecutor(16) as pool:
        parallel = list(pool.map(lambda query: index.retrieve([query], k=3)[0], queries))
    assert parallel == index.retrieve(queries, k=3)


def test_registered_as_stages():
    assert stage_class("retriever", "bm25") is BM25
    assert stage_class("retriever", "rank-bm25") is RankBM25
    assert isinstance(BM25(), Retriever)
