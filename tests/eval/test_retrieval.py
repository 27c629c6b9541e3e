from __future__ import annotations

import json

import pytest

from rag.errors import ArtefactError, ConfigError, InputError
from rag.eval.collections import Collection
from rag.eval.latency import latency
from rag.eval.retrieval import evaluate
from rag.retrievers import BM25
from rag.types import Document, Query, ScoredDocument, ranked

WORDS = ["harbour", "lamp", "bread", "tide", "boat", "salt", "keeper", "noon", "wall", "coast"]


@pytest.fixture
def collection():
    """Ten queries of one word, ten documents of which one has that word and is the answer."""
    documents = tuple(Document(f"d{i}", f"the {word} of the town") for i, word in enumerate(WORDS))
    queries = tuple(Query(word, f"q{i}") for i, word in enumerate(WORDS))
    return Collection("words", documents, queries, {f"q{i}": {f"d{i}": 1} for i in range(len(WORDS))})


@pytest.fixture
def systems(collection):
    index = BM25().index(collection.documents)

    def bm25(query: Query) -> list[ScoredDocument]:
        return index.retrieve([query], 5)[0]

    def blind(_: Query) -> list[ScoredDocument]:
        return ranked(collection.documents, [0.0] * len(collection.documents))

    return {"blind": blind, "bm25": bm25}


def test_measures_and_compares_with_the_baseline(collection, systems):
    results = evaluate(collection, systems, measures=["nDCG@10", "RR@10"], progress=False)
    assert results.baseline == "blind"
    bm25, blind = results.systems["bm25"], results.systems["blind"]
    assert bm25.evaluation.aggregate == {"nDCG@10": 1.0, "RR@10": 1.0}
    assert blind.evaluation.per_query["RR@10"] == pytest.approx({f"q{i}": 1 / (i + 1) for i in range(10)})
    assert blind.against_baseline == {}
    comparison = bm25.against_baseline["RR@10"]
    assert comparison.difference == pytest.approx(1 - sum(1 / (i + 1) for i in range(10)) / 10)
    assert comparison.interval.low < comparison.difference < comparison.interval.high
    # Nine of ten differ, all one way: 2 of 2**9 sign assignments are as extreme.
    assert comparison.p_randomisation == pytest.approx(2 / 2**9, abs=1e-3)
    assert comparison.p_t_test < 0.001
    first, second = results.table()
    assert (first["system"], first["nDCG@10"] < 1, "nDCG@10 p" in first) == ("blind", True, False)
    assert second["RR@10 diff"] == comparison.difference
    assert second["p95 s"] >= second["p50 s"] > 0


def test_k_cuts_the_rankings(collection, systems):
    results = evaluate(collection, systems, k=3, measures=["R@100"], progress=False)
    assert {len(pairs) for pairs in results.systems["blind"].run.values()} == {3}
    assert results.systems["blind"].evaluation.aggregate["R@100"] == 0.3


def test_an_interrupted_evaluation_carries_on(collection, systems, tmp_path):
    output = tmp_path / "new" / "results.jsonl"
    asked = []

    def counting(query):
        if len(asked) == 4 and "resumed" not in asked:
            raise KeyboardInterrupt
        asked.append(query.id)
        return systems["bm25"](query)

    with pytest.raises(KeyboardInterrupt):
        evaluate(collection, {"bm25": counting}, output=output, progress=False)
    assert len(output.read_text().splitlines()) == 1 + 4
    with output.open("a") as file:
        file.write('{"system": "bm25", "query": "q4", "sec')  # killed while writing
    asked.append("resumed")
    resumed = evaluate(collection, {"bm25": counting}, output=output, progress=False)
    assert asked == ["q0", "q1", "q2", "q3", "resumed", "q4", "q5", "q6", "q7", "q8", "q9"]
    fresh = evaluate(collection, {"bm25": systems["bm25"]}, progress=False)
    assert resumed.systems["bm25"].run == fresh.systems["bm25"].run
    assert resumed.systems["bm25"].evaluation == fresh.systems["bm25"].evaluation
    assert len(output.read_text().splitlines()) == 1 + 10


def test_a_file_of_another_evaluation_is_refused(collection, systems, tmp_path):
    output = tmp_path / "results.jsonl"
    evaluate(collection, systems, k=3, output=output, progress=False)
    with pytest.raises(ArtefactError, match=r"'k': 3.*'k': 5"):
        evaluate(collection, systems, k=5, output=output, progress=False)
    lines = output.read_text().splitlines()
    output.write_text("\n".join([lines[0], "{}", *lines[2:]]) + "\n")
    with pytest.raises(ArtefactError, match="line 2 is damaged"):
        evaluate(collection, systems, k=3, output=output, progress=False)


def test_lines_of_the_file_hold_the_rankings(collection, systems, tmp_path):
    output = tmp_path / "results.jsonl"
    results = evaluate(collection, {"bm25": systems["bm25"]}, k=2, output=output, progress=False)
    header, *records = map(json.loads, output.read_text().splitlines())
    assert (header["collection"], header["k"]) == ("words", 2)
    assert {record["query"]: [tuple(pair) for pair in record["ranking"]] for record in records} == results.systems[
        "bm25"
    ].run


def test_self_retrieval_is_removed_on_request():
    text = "tides rise at noon"
    documents = (Document("a1", text), Document("a2", "tides do not rise at noon but later"))
    collection = Collection("arguments", documents, (Query(text, "a1"),), {"a1": {"a2": 1}})
    index = BM25().index(documents)
    systems = {"bm25": lambda query: index.retrieve([query], 2)[0]}
    kept = evaluate(collection, systems, k=1, measures=["nDCG@1"], progress=False)
    removed = evaluate(collection, systems, k=1, measures=["nDCG@1"], remove_self=True, progress=False)
    assert kept.systems["bm25"].evaluation.aggregate["nDCG@1"] == 0
    assert removed.systems["bm25"].evaluation.aggregate["nDCG@1"] == 1


def test_progress_goes_to_standard_error_and_can_be_switched_off(collection, systems, capsys):
    evaluate(collection, systems, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "20/20" in shown.err
    evaluate(collection, systems, progress=False)
    assert capsys.readouterr() == ("", "")


def test_bad_input(collection, systems):
    with pytest.raises(ConfigError, match="no system"):
        evaluate(collection, {})
    with pytest.raises(ConfigError, match="'dense' is not among the systems: blind, bm25"):
        evaluate(collection, systems, baseline="dense")
    with pytest.raises(ConfigError, match="at least 1, given 0"):
        evaluate(collection, systems, k=0)
    with pytest.raises(InputError, match="no judged query"):
        evaluate(Collection("none", (), (), {}), systems)
    upside_down = {"wrong": lambda query: systems["bm25"](query)[::-1]}
    with pytest.raises(InputError, match="scores increase"):
        evaluate(collection, upside_down, progress=False)


def test_latency_percentiles():
    summary = latency([i / 100 for i in range(1, 102)])
    assert (summary.mean, summary.p50) == pytest.approx((0.51, 0.51))
    assert (summary.p95, summary.p99) == pytest.approx((0.96, 1.0))
    with pytest.raises(InputError, match="no wall times"):
        latency([])
