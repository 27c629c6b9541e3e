"""The whole way, with a real (tiny, random) attention model, BM25, and stages registered as a user would."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest
import torch

from rag.attention.types import AttentionSpec, Head
from rag.budget import Budget
from rag.config import Settings
from rag.errors import (
    BudgetError,
    ConfigError,
    DuplicateIdsError,
    EmptyQueryError,
    InputError,
    LimitError,
    ModelOutputError,
    NotTextError,
    QueryTooLongError,
)
from rag.pipeline import Pipeline
from rag.registry import register
from rag.sentences import sentences
from rag.types import CompressedDocument, Document, Query, ranked

QUERY = "How deep is the harbour?"


@register("reranker", "test-mass")
class Mass:
    """Attention to a document: the sum over its tokens, one head."""

    spec = AttentionSpec((Head(1, 2),))

    def __init__(self, engine, factor: float = 1.0):
        self.engine, self.factor = engine, factor

    def rerank(self, query, documents, *, attender=None):
        plain = [item.document for item in documents]
        answer = (attender or self.engine).attend(query, plain, self.spec)
        mass = torch.zeros(len(plain))
        for block in answer.blocks:
            mass[block.document] += answer.rows["mean"][0, 0, slice(*block.tokens)].sum()
        return ranked(plain, [self.factor * float(value) for value in mass])


@register("compressor", "test-first")
class First:
    """The first sentence of each document, best document first, as long as the budget lasts."""

    spec = AttentionSpec((Head(2, 0),), ("last",))

    def __init__(self, engine):
        self.engine = engine

    def compress(self, query, documents, budget, *, attender=None):
        source = attender or self.engine
        source.attend(query, [item.document for item in documents], self.spec)
        counts = source.count_tokens([item.document.text for item in documents])
        left = budget.limit(sum(counts))
        out = []
        for item, before in zip(documents, counts, strict=True):
            span = sentences(item.document.text)[0]
            (cost,) = source.count_tokens([item.document.text[slice(*span)]])
            spans, after = ((span,), cost) if cost <= left else ((), 0)
            left -= after
            out.append(CompressedDocument(item.document, spans, (), before, after))
        return out


@register("ordering", "test-reversed")
class Reversed:
    def order(self, query, documents, *, attender=None):  # noqa: ARG002
        return list(reversed(documents))


def pipeline(engine, **settings) -> Pipeline:
    chosen = {"retriever": "bm25", "reranker": "test-mass", "compressor": "test-first", "ordering": "test-reversed"}
    return Pipeline(Settings(**{**chosen, **settings}), engine=engine)


def bare(engine, **settings) -> Pipeline:
    return pipeline(engine, **{"reranker": None, "compressor": None, "ordering": None, **settings})


def test_all_stages_from_one_attention_pass(engine, documents):
    seen = []
    result = pipeline(engine, top_n=3).run(QUERY, documents, on_stage=lambda trace, _: seen.append(trace))

    assert [trace.stage for trace in result.trace] == ["retriever", "reranker", "compressor", "ordering"]
    assert seen == list(result.trace)
    assert result.trace[1].details["attention_passes"] == 1
    assert result.trace[2].details == {
        "attention_passes": 0,
        "attention_reused": 1,
        "attention_encoded_tokens": 0,
        "attention_cached_blocks": 0,
    }
    assert [(trace.documents_in, trace.documents_out) for trace in result.trace] == [(4, 4), (4, 4), (3, 3), (3, 3)]
    assert [item.rank for item in result.results] == [3, 2, 1]
    for item in result.results:
        source = documents[item.index]
        assert item.id == source.id
        assert source.text.startswith(item.text)
        assert item.text == "".join(source.text[slice(*span)] for span in item.spans)
        assert item.scores["reranker"] == item.score
        assert "bm25" in item.scores
    (out,) = result.dropped
    assert (out.reason, out.rank) == ("below_top_n", 4)
    assert {item.id for item in result.results} | {out.id} == set("abcd")
    assert result.context.startswith(f"[1]\n{result.results[0].text}")


def test_usage_counts_tokens_of_what_was_given_and_what_is_given_back(engine, documents):
    result = pipeline(engine, top_n=2, budget=40).run(QUERY, documents)
    usage = result.usage
    assert usage.query_tokens == engine.count_tokens([QUERY])[0]
    assert usage.corpus_tokens == sum(engine.count_tokens([document.text for document in documents]))
    assert usage.context_tokens == engine.count_tokens([result.context])[0]
    assert usage.saved_tokens == usage.corpus_tokens - usage.context_tokens
    assert sum(item.tokens_after for item in result.results) == result.trace[2].tokens_out <= 40


def test_a_result_is_json(engine, documents):
    result = pipeline(engine).run(QUERY, [*documents, {"text": "More.", "metadata": {"year": 1932}}])
    read = json.loads(json.dumps(asdict(result), allow_nan=False))
    assert read["query"] == QUERY
    assert {item["id"]: item["metadata"] for item in read["results"]}["4"] == {"year": 1932}
    assert read["pipeline"]["reranker"] == {"name": "test-mass", "options": {}}


def test_stages_that_are_off_leave_documents_as_they_were(engine, documents):
    result = bare(engine).run(QUERY, documents)
    assert [trace.stage for trace in result.trace] == ["retriever"]
    assert [item.rank for item in result.results] == [1, 2, 3, 4]
    assert result.results[0].id == "a"
    for item in result.results:
        assert item.text == documents[item.index].text
        assert item.tokens_before == item.tokens_after


@pytest.mark.parametrize("query", ["", " \n\t"])
def test_empty_query(engine, query):
    with pytest.raises(EmptyQueryError):
        bare(engine).run(query, ["x"])


@pytest.mark.parametrize(
    "settings",
    [
        {"budget": "50%"},
        {"budget": 1},
        {"budget": "1 characters"},
        {"limits": {"query_tokens": 1, "documents": 1, "document_characters": 1, "total_characters": 1}},
        {"limits": {"read_tokens": 1}},
    ],
)
@pytest.mark.parametrize("compressor", ["test-first", "first"])
def test_warming_does_not_depend_on_the_bounds_of_a_request(engine, settings, compressor):
    made = pipeline(engine, compressor=compressor, **settings)
    assert made.warm() is made


def test_candidates_above_what_may_be_read_are_refused_with_both_numbers(engine, documents):
    tokens = engine.count_tokens([document.text for document in documents])
    most = sum(tokens)
    assert pipeline(engine, limits={"read_tokens": most}).run(QUERY, documents).results
    small = pipeline(engine, limits={"read_tokens": most - 1})
    with pytest.raises(LimitError, match=rf"reranker reads have {most} tokens.*{most - 1}.*limits\.read_tokens"):
        small.run(QUERY, documents)
    assert small.run(QUERY, documents, retrieve_k=3, top_n=3).results


def test_only_what_attention_reads_counts_as_read(engine, documents):
    limits = {"read_tokens": 1}
    assert len(bare(engine, compressor="first", limits=limits).run(QUERY, documents).results) == 4
    with pytest.raises(LimitError, match="that the compressor reads have"):
        bare(engine, compressor="test-first", limits=limits).run(QUERY, documents)


NOT_APPLIED = "no compressor: the budget of {} is not applied"


@pytest.mark.parametrize(
    ("settings", "given", "warnings"),
    [
        ({}, None, ()),
        ({}, Budget(9), (NOT_APPLIED.format("9 tokens"),)),
        ({}, Budget(1.0, "ratio"), ()),
        ({"budget": "50%"}, None, (NOT_APPLIED.format("50%"),)),
        ({"budget": 512}, None, (NOT_APPLIED.format("512 tokens"),)),
        ({"budget": None}, None, ()),
        ({"compressor": "first"}, Budget(90), ()),
    ],
)
def test_a_budget_that_nothing_applies_is_a_warning(engine, documents, settings, given, warnings):
    assert bare(engine, **settings).run(QUERY, documents, budget=given).warnings == warnings


def test_document_order_is_that_of_the_corpus_whatever_the_ranks(engine, documents):
    corpus = [documents[3], "", documents[2], documents[0], documents[1]]
    result = pipeline(engine, ordering="document", compressor=None, top_n=4).run(QUERY, corpus)
    assert [item.index for item in result.results] == [0, 2, 3, 4]
    assert [item.rank for item in result.results] != [1, 2, 3, 4]
    assert all("index" not in item.scores for item in result.results)


def test_every_ranking_stage_leaves_the_place_in_the_corpus(engine, documents):
    made = bare(engine, ordering="document")
    assert [item.id for item in made.run("Who bakes bread at the harbour market?", documents).results] == list("abcd")


@pytest.mark.parametrize("compressor", [None, "first", "test-first"])
@pytest.mark.parametrize("amount", [30, 60])
def test_tokens_are_of_the_text_alone_and_within_the_budget(engine, documents, compressor, amount):
    corpus = [
        {"id": "title", "text": "", "title": "Depth of the harbour"},
        {"id": "blank", "text": " \n " * 50, "title": "Harbour walls and piers"},
        {"id": "both", "text": documents[0].text, "title": "A title of more than a few tokens"},
        documents[3],
    ]
    result = bare(engine, compressor=compressor).run(QUERY, corpus, budget=Budget(amount))
    for item in result.results:
        source = corpus[item.index]
        text = source.text if isinstance(source, Document) else source["text"]
        assert item.tokens_before == engine.count_tokens([text])[0]
        assert item.tokens_after == engine.count_tokens([item.text])[0]
    assert {"title", "blank"} <= {item.id for item in result.results}
    if compressor is not None:
        assert sum(item.tokens_after for item in result.results) <= amount


def test_empty_corpus(engine):
    result = pipeline(engine).run(QUERY, [])
    assert (result.results, result.context, result.dropped, result.trace) == ((), "", (), ())
    assert result.warnings == ("the corpus is empty",)
    assert result.usage.corpus_tokens == 0


def test_empty_documents_are_ranked_last_and_flagged(engine):
    corpus = ["", "The harbour is deep.", " \n", "Bread."]
    result = pipeline(engine).run(QUERY, corpus)
    assert [item.empty for item in result.results] == [False, False, True, True]
    assert [(item.id, item.rank) for item in result.results[2:]] == [("0", 3), ("2", 4)]
    assert min(item.score for item in result.results[:2]) >= result.results[2].score
    assert "[3]" not in result.context
    assert "'0', '2'" in result.warnings[0]


def test_a_corpus_of_empty_documents_only(engine):
    result = pipeline(engine).run(QUERY, ["", "  "])
    assert [(item.id, item.empty, item.score) for item in result.results] == [("0", True, 0.0), ("1", True, 0.0)]
    assert result.context == ""


def test_a_document_with_a_title_only_is_not_empty_and_not_compressed_away(engine):
    result = pipeline(engine).run(QUERY, [{"text": "", "title": "Depth of the harbour"}, "Bread."])
    assert {item.id: item.empty for item in result.results} == {"0": False, "1": False}
    assert "Depth of the harbour" in result.context


@pytest.mark.parametrize(
    ("name", "value"), [("top_n", 0), ("top_n", -1), ("retrieve_k", 0), ("top_n", True), ("top_n", 1.5)]
)
def test_counts_below_one(engine, name, value):
    with pytest.raises(InputError, match=f"{name} must be a whole number of at least 1, given {value}"):
        bare(engine).run(QUERY, ["x"], **{name: value})


def test_top_n_above_the_corpus_is_all_and_raises_retrieve_k(engine, documents):
    assert len(bare(engine).run(QUERY, documents, top_n=50).results) == 4
    result = bare(engine).run(QUERY, documents, top_n=3, retrieve_k=1)
    assert len(result.results) == 3
    assert [item.reason for item in result.dropped] == ["not_retrieved"]


def test_query_above_the_cap_names_both_numbers(engine):
    (tokens,) = engine.count_tokens([QUERY])
    assert bare(engine, limits={"query_tokens": tokens}).run(QUERY, ["x"]).results
    with pytest.raises(QueryTooLongError, match=f"{tokens} tokens.*{tokens - 1}"):
        bare(engine, limits={"query_tokens": tokens - 1}).run(QUERY, ["x"])


def test_history_counts_against_the_cap(engine):
    (tokens,) = engine.count_tokens([QUERY])
    with pytest.raises(QueryTooLongError):
        bare(engine, limits={"query_tokens": tokens}).run(Query(QUERY, history=("And the pier?",)), ["x"])


@pytest.mark.parametrize(
    ("limits", "numbers"),
    [
        ({"documents": 1}, "2 documents.*1"),
        ({"document_characters": 3}, "'1' has 4.*3"),
        ({"total_characters": 6}, "7.*6"),
    ],
)
def test_limits(engine, limits, numbers):
    with pytest.raises(LimitError, match=numbers):
        bare(engine, limits=limits).run(QUERY, ["abc", "abcd"])


def test_a_long_document_is_read_in_windows_and_flagged(engine):
    long = " ".join(f"Sentence {i} is about ropes." for i in range(40))
    result = pipeline(engine, compressor=None).run(QUERY, [long, "The harbour is deep."])
    by_id = {item.id: item for item in result.results}
    assert by_id["0"].windowed
    assert by_id["0"].windows > 2
    assert by_id["0"].text == long
    assert (by_id["1"].windows, by_id["1"].windowed) == (1, False)
    assert any("'0'" in warning and "overlapping" in warning for warning in result.warnings)


def test_what_does_not_fit_the_budget_is_dropped_with_the_reason(engine, documents):
    (cost,) = engine.count_tokens([documents[0].text[: sentences(documents[0].text)[0].end]])
    result = bare(engine, compressor="test-first").run(QUERY, documents, budget=Budget(cost))
    assert [item.id for item in result.results] == ["a"]
    assert {item.reason for item in result.dropped} == {"compressed_away"}
    assert {item.id for item in result.dropped} == set("bcd")
    assert f"{cost} tokens" in result.dropped[0].detail


def test_without_a_budget_everything_may_be_kept(engine, documents):
    result = bare(engine, compressor="test-first", budget=None).run(QUERY, documents)
    assert len(result.results) == 4


def test_other_bad_input(engine):
    with pytest.raises(DuplicateIdsError, match="'a'"):
        bare(engine).run(QUERY, [Document("a", "x"), Document("a", "y")])
    with pytest.raises(NotTextError, match="index 1"):
        bare(engine).run(QUERY, ["x", 5])
    with pytest.raises(NotTextError, match="query"):
        bare(engine).run(5, ["x"])
    for query in ("\udc00", Query("q", id="\udc00"), Query("q", history=("ok", "\udc00"))):
        with pytest.raises(NotTextError, match=r"query.*surrogate"):
            bare(engine).run(query, ["x"])
    for document in (Document("\udc00", "x"), Document("a", "\udc00"), {"text": "x", "title": "\udc00"}):
        with pytest.raises(NotTextError, match=r"index 0.*surrogate"):
            bare(engine).run(QUERY, [document])
    with pytest.raises(BudgetError, match="'50%'"):
        bare(engine).run(QUERY, ["x"], budget="50%")


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_a_score_that_is_not_a_number_is_an_error(engine, documents, factor):
    broken = pipeline(engine, reranker={"name": "test-mass", "options": {"factor": factor}})
    with pytest.raises(ModelOutputError, match="test-mass"):
        broken.run(QUERY, documents)


@pytest.mark.parametrize(
    ("stage", "parts"),
    [
        ("no-such", ["unknown reranker 'no-such'", "test-mass"]),
        ({"name": "test-mass", "options": {"factr": 1}}, ["factr", "accepted options: factor"]),
        ({"name": "test-mass", "options": {"factor": "big"}}, ["factor", "'big'"]),
    ],
)
def test_stage_names_and_options_are_checked_when_the_pipeline_is_made(stage, parts):
    with pytest.raises(ConfigError) as caught:
        Pipeline(Settings(retriever="bm25", reranker=stage, compressor=None, ordering=None))
    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"retriever": {"name": "bm25", "options": {"k1": -1}}}, ["retriever 'bm25'", "k1", "-1"]),
        ({"retriever": {"name": "fused", "options": {"members": {"nope": {}}}}}, ["nope", "bm25"]),
        ({"retriever": {"name": "fused", "options": {"members": {"dense": {}, "bm25": {"b": 2}}}}}, ["b must be", "2"]),
        ({"retriever": {"name": "fused", "options": {"members": {"bm25": {"kk": 1}}}}}, ["kk", "k1, b"]),
        ({"retriever": {"name": "fused", "options": {"members": {}}}}, ["at least one member"]),
        ({"reranker": {"name": "heads", "options": {"weight": -1}}}, ["reranker 'heads'", "weight", "-1"]),
        ({"compressor": {"name": "attention", "options": {"max_words": 0}}}, ["max_words", "0"]),
        ({"compressor": {"name": "first", "options": {"document_weight": 2}}}, ["document_weight", "2"]),
        ({"ordering": {"name": "attention-sort", "options": {"iterations": 0}}}, ["iterations", "0"]),
    ],
)
def test_values_that_a_stage_refuses_are_refused_without_any_model(settings, parts, monkeypatch):
    monkeypatch.setenv("RAG_MODEL", "no-such-model")
    with pytest.raises(ConfigError) as caught:
        Pipeline(Settings(**{"retriever": "bm25", "reranker": None, "compressor": None, "ordering": None, **settings}))
    assert [part for part in parts if part not in str(caught.value)] == []


def test_a_pipeline_of_every_default_is_made_without_any_model(monkeypatch):
    monkeypatch.setenv("RAG_MODEL", "no-such-model")
    monkeypatch.setenv("RAG_EMBEDDER", "no-such-model")
    assert Pipeline().describe()["retriever"]["name"] == "fused"


def test_messages_do_not_grow_with_the_input(engine):
    name = "x" * 10_000
    small = bare(engine, limits={"document_characters": 3})
    for corpus in ([Document(name, "abcd")], [Document(name, "a"), Document(name, "b")], [name * 3, 5]):
        with pytest.raises(InputError) as caught:
            small.run(QUERY, corpus)
        assert len(str(caught.value)) < 300
    (warning,) = bare(engine).run(QUERY, [Document(name, "")]).warnings
    assert len(warning) < 200


def test_a_pipeline_prints_what_it_is(engine):
    made = pipeline(engine, reranker={"name": "test-mass", "options": {"factor": "2"}}, compressor=None, top_n=3)
    assert repr(made) == (
        "Pipeline(retriever='bm25', reranker='test-mass(factor=2.0)', compressor=None, ordering='test-reversed', "
        "retrieve_k=20, top_n=3, budget='512 tokens', model='smollm2-135m')"
    )
    assert made.describe()["reranker"] == {"name": "test-mass", "options": {"factor": 2.0}}


def test_from_yaml_and_from_config_are_the_same(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("retriever: bm25\nreranker: null\ncompressor: null\nordering: null\ntop_n: 2\n")
    from_config = Pipeline.from_config(retriever="bm25", reranker=None, compressor=None, ordering=None, top_n=2)
    assert repr(Pipeline.from_yaml(path)) == repr(from_config)


def test_threads_get_what_one_thread_gets(engine, documents):
    made = pipeline(engine)
    queries = [QUERY, "Who bakes bread?", "What burned in the lamp?", "What colour are boats?"] * 3

    def answer(query):
        return [(item.id, pytest.approx(item.score, abs=1e-5)) for item in made.run(query, documents).results]

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(answer, queries)) == [answer(query) for query in queries]


def test_the_callers_documents_are_not_touched(engine):
    corpus = [{"text": "The harbour.", "metadata": {"a": [1]}}, {"text": "Bread."}]
    before = json.dumps(corpus)
    pipeline(engine).run(QUERY, corpus)
    assert json.dumps(corpus) == before
