from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest
from serving import served

from rag.api.app import create_app
from rag.config import Settings
from rag.errors import InputError
from rag.eval.bench_serve import Load, alone, comparison, growth, saturated, together

NOWHERE = "http://127.0.0.1:9"
GOOD = {"query": "How deep is the harbour?", "documents": ["The harbour is 14 m deep.", "Boats are blue."]}
BAD = {"query": " ", "documents": []}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(create_app(Settings(retriever="bm25", reranker=None, compressor=None, ordering=None))) as url:
        yield url


def test_answers_are_timed_and_all_else_is_counted_by_status(url):
    load = asyncio.run(together(url, [[GOOD, BAD], [GOOD]]))
    assert load.statuses == {"200": 2, "400": 1}
    assert len(load.latencies) == 2
    row = load.row()
    assert (row["requests"], row["statuses"]) == (3, {"200": 2, "400": 1})
    assert 0 < row["p50_s"] <= row["p95_s"]
    assert comparison(load, load)["throughput_ratio"] == 1.0


def test_where_nothing_answers_the_error_is_counted(url):
    load = asyncio.run(together(NOWHERE, [[GOOD], [GOOD]]))
    assert (load.statuses, load.latencies) == ({"ConnectError": 2}, ())
    assert load.row()["statuses"] == {"ConnectError": 2}
    assert comparison(asyncio.run(alone(url, [GOOD])), load) == {}
    with pytest.raises(InputError, match=r"none of 1 requests was answered with 200, but with {'400': 1}"):
        asyncio.run(alone(url, [BAD]))


def test_saturation_watches_the_memory(url):
    told = []
    load = asyncio.run(saturated(url, [[GOOD], [GOOD, BAD]], 0.9, os.getpid(), told.append))
    assert load.statuses["200"] > load.statuses["400"] == 1  # then it waited
    assert told[0] < 0.9
    memory = load.memory()
    assert 50 < memory["start_mib"] <= memory["peak_mib"]
    assert memory["end_mib"] == load.resident_mib[-1]


def test_growth_leaves_out_the_first_fifth():
    assert growth([1, 100, 100, 100, 110]) == pytest.approx(0.1)
    assert growth([100]) == 0
    load = Load(1.0, (), {}, (90.0, 100.0, 140.0, 120.0, 110.0))
    memory = {"start_mib": 90.0, "end_mib": 110.0, "peak_mib": 140.0, "growth": pytest.approx(0.1)}
    assert load.memory() == memory
