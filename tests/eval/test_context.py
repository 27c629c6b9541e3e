from __future__ import annotations

import json

import pytest
from qa_files import write_qa

from rag.attention.engine import AttentionEngine
from rag.compressors import AttentionCompressor, BM25Compressor, FirstCompressor, WholeCompressor
from rag.errors import ArtefactError, BudgetError, ConfigError, InputError
from rag.eval.answers import findable
from rag.eval.collections import Question, load_qa
from rag.eval.context import evaluate, shuffled
from rag.eval.context_systems import ContextSystem, Ranker, build_systems
from rag.rerankers import HeadReranker
from rag.retrievers import BM25
from rag.types import Document, Query


@pytest.fixture(scope="module")
def engine(smollm2) -> AttentionEngine:
    return AttentionEngine(smollm2.name)


@pytest.fixture(scope="module")
def collections(tmp_path_factory):
    return {"town": load_qa(write_qa(tmp_path_factory.mktemp("qa") / "town.jsonl"))}


def system(label: str, compressor, **options) -> ContextSystem:
    return ContextSystem(label, compressor, {"name": label, "options": options})


@pytest.fixture
def systems(engine):
    compressors = {"attention": AttentionCompressor, "bm25": BM25Compressor, "first": FirstCompressor}
    return [system(label, compressor(engine)) for label, compressor in compressors.items()]


def test_every_measure_of_every_budget(collections, engine, systems):
    kept = evaluate(collections, systems, [0.3, 1.0], engine, progress=False)
    assert [(item.question, item.system, item.budget) for item in kept] == [
        (question, label, budget)
        for question in ("q1", "q2", "q3")
        for label in ("attention", "bm25", "first")
        for budget in (0.3, 1.0)
    ]
    found = {item.key[1:]: item for item in kept}
    everything = found["q1", "bm25", 1.0].values
    assert (everything["recall"], everything["recall_weighted"], everything["retention"], everything["ratio"]) == (
        (1, 1, 1, 1)
    )
    assert everything["precision"] == pytest.approx(1 / 10)
    for item in kept:
        assert item.values["ratio"] == item.tokens_after / item.tokens_before <= item.budget
        assert item.values["seconds"] > 0
        assert not item.impossible
    # "harbour" and "deep" stand in one sentence alone, and the compressor that takes first sentences cannot see it.
    best = found["q1", "bm25", 0.3].values
    assert (best["recall"], best["retention"], best["auc"]) == (1, 1, 1)
    worst = found["q1", "first", 0.3].values
    assert (worst["recall"], worst["precision"], worst["retention"]) == (0, 0, 0)
    assert worst["auc"] < 1
    assert found["q1", "attention", 0.3].values["auc"] > 0.5
    # "no" is in no document, so that no compressor can keep or lose it.
    assert all(item.values["retention"] is None for item in kept if item.question == "q3")
    assert found["q3", "bm25", 1.0].values["recall"] == 1


def test_spans_are_what_the_measures_are_of(collections, engine, systems):
    (item, *_) = evaluate({"town": collections["town"][:1]}, systems[1:2], [0.3], engine, progress=False)
    texts = {document.id: document.text for document in collections["town"][0].documents}
    kept = {name: [texts[name][start:end] for start, end in spans] for name, spans in item.spans.items() if spans}
    assert "The harbour is fourteen metres deep." in kept["harbour"]
    assert list(item.spans) == [document.id for document in shuffled(collections["town"][0])]


def test_a_baseline_that_writes_its_own_text_is_measured_by_that_text(collections, engine, tmp_path):
    pytest.importorskip("llmlingua")
    (lingua,) = build_systems(["llmlingua:attempts=1"], {})
    journal = tmp_path / "journal.jsonl"
    questions = {"town": collections["town"][:1]}
    (kept,) = evaluate(questions, [lingua], [0.5], engine, journal=journal, progress=False)
    assert kept.text
    assert kept.values["ratio"] == engine.count_tokens([kept.text])[0] / kept.tokens_before
    assert kept.values["retention"] == float(bool(findable(collections["town"][0].answers, [kept.text])))
    assert kept.values["recall"] is kept.values["auc"] is None
    assert not kept.spans
    # What was done is read from the journal, text and all.
    assert evaluate(questions, [lingua], [0.5], engine, journal=journal, progress=False) == [kept]


def test_the_order_of_the_file_gives_nothing_away(collections):
    question = collections["town"][0]
    turned = Question(question.query, question.answers, question.documents[::-1], question.supporting)
    others = [Question(Query("?", f"q{i}"), (), question.documents, frozenset()) for i in range(20)]
    assert len({tuple(document.id for document in shuffled(other)) for other in others}) > 3
    assert sorted(document.id for document in shuffled(turned)) == ["bread", "harbour", "lamp"]
    assert [document.id for document in question.documents] == ["harbour", "lamp", "bread"]


def test_with_a_ranker_the_budget_is_still_of_all_documents(collections, engine, systems):
    ranker = Ranker(BM25(), HeadReranker(engine), 1)
    kept = evaluate(collections, systems[:2], [0.2, 1.0], engine, ranker=ranker, progress=False)
    first = [item for item in kept if item.question == "q1"]
    assert {name for item in first for name in item.spans} == {"harbour"}
    assert {item.values["recall"] for item in first} == {1}
    whole = next(item for item in first if item.budget == 1)
    assert 0.3 < whole.values["ratio"] < 0.5
    assert whole.tokens_before > whole.tokens_after


def test_an_interrupted_evaluation_carries_on(collections, engine, systems, tmp_path):
    journal = tmp_path / "context.jsonl"
    asked: list[str] = []

    class Interrupted(BM25Compressor):
        def score(self, query, documents, spans, attender):
            if query.id == "q2" and "stop" not in asked:
                asked.append("stop")
                raise KeyboardInterrupt
            asked.append(query.id)
            return super().score(query, documents, spans, attender)

    stopping = [systems[2], system("bm25", Interrupted(engine))]
    with pytest.raises(KeyboardInterrupt):
        evaluate(collections, stopping, [0.3], engine, journal=journal, progress=False)
    assert len(journal.read_text().splitlines()) == 1 + 3
    resumed = evaluate(collections, stopping, [0.3], engine, journal=journal, progress=False)
    assert asked == ["q1", "stop", "q2", "q3"]
    fresh = evaluate(collections, [systems[2], systems[1]], [0.3], engine, progress=False)

    def timeless(items):
        return [(item.key, item.spans, {**item.values, "seconds": 0}) for item in items]

    assert timeless(resumed) == timeless(fresh)
    # More systems and more questions go into the same file; what is there is not asked again.
    more = evaluate(collections, [*stopping, systems[0]], [0.3], engine, journal=journal, progress=False)
    assert len(more) == 9
    assert asked == ["q1", "stop", "q2", "q3"]
    assert json.loads(journal.read_text().splitlines()[0])["budgets"] == [0.3]


def test_a_journal_of_something_else_is_refused(collections, engine, systems, tmp_path):
    journal = tmp_path / "context.jsonl"
    evaluate(collections, systems[2:], [0.3], engine, journal=journal, progress=False)
    with pytest.raises(ArtefactError, match=r"'budgets': \[0.3\].*'budgets': \[0.4\]"):
        evaluate(collections, systems[2:], [0.4], engine, journal=journal, progress=False)
    other = [system("first", FirstCompressor(engine), max_words=5)]
    with pytest.raises(ArtefactError, match="another label"):
        evaluate(collections, other, [0.3], engine, journal=journal, progress=False)
    question = collections["town"][0]
    changed = Question(question.query, ("15 m",), question.documents, frozenset(), question.supporting_sentences)
    with pytest.raises(ArtefactError, match="with data"):
        evaluate({"town": [changed]}, systems[2:], [0.3], engine, journal=journal, progress=False)


def test_a_budget_below_the_smallest_unit_keeps_nothing_and_is_counted(collections, engine):
    kept = evaluate(collections, [system("whole", WholeCompressor(engine))], [0.05], engine, progress=False)
    assert all(item.impossible for item in kept)
    assert {(item.values["recall"], item.values["ratio"], item.values["auc"]) for item in kept} == {(0, 0, None)}


def test_what_cannot_be_evaluated_is_refused(collections, engine, systems):
    with pytest.raises(ConfigError, match="at least one system"):
        evaluate(collections, [], [0.2], engine)
    with pytest.raises(BudgetError, match=r"\(0, 1\]"):
        evaluate(collections, systems, [20], engine)
    with pytest.raises(InputError, match="no question"):
        evaluate({"town": []}, systems, [0.2], engine)
    blank = Question(Query("q", "q9"), ("a",), (Document("d", "  "),), frozenset())
    with pytest.raises(InputError, match="town, question 'q9': its documents have no text"):
        evaluate({"town": [blank]}, systems, [0.2], engine, progress=False)
