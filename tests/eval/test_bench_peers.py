from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rag.cli.app import app
from rag.errors import ConfigError, InputError
from rag.eval.bench_engine import Timing
from rag.eval.bench_peers import PEERS, Measured, overlap, rows


def run(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments), "--no-progress"])


def test_ratios_have_the_range_that_the_repeats_allow():
    ours = Measured("rag bm25", "bm25", "1", Timing((1.0, 1.0)), Timing((2.0, 2.2)), (("a", "b"),))
    theirs = Measured("rank-bm25", "bm25", "2", Timing((4.0, 4.0)), Timing((8.0, 16.0)), (("a", "c"),))
    first, second = rows([ours, theirs])
    assert (first["queries_ratio"], first["noisy"]) == (None, False)
    assert second["index_ratio"] == 4.0
    assert second["queries_ratio"] == pytest.approx(12 / 2.1)
    assert second["queries_ratio_range"] == pytest.approx([8 / 2.2, 16 / 2])
    assert second["top10_overlap"] == 0.5
    assert second["noisy"]


def test_without_ours_there_is_no_ratio():
    (row,) = rows([Measured("bm25s", "bm25", "1", None, Timing((1.0,)), ())])
    assert (row["index_s"], row["queries_ratio"], row["top10_overlap"]) == (None, None, None)
    assert overlap((("a",), ()), (("b",), ("c",))) == 0.0


def test_one_group_has_one_of_ours():
    for group in {peer.group for peer in PEERS.values()}:
        assert sum(peer.ours for peer in PEERS.values() if peer.group == group) == 1


def test_bm25_and_its_peers_find_the_same(tmp_path):
    record = tmp_path / "peers.json"
    flags = [text for name in ("rag bm25", "bm25s, our terms", "rank-bm25", "flashrank", "cross-encoder")
             for text in ("--peer", name)]  # fmt: skip
    done = run("peers", *flags, "--queries", 6, "--repeats", 2, "--json", record)
    assert done.exit_code == 0, done.output
    figures = json.loads(record.read_text())
    by_name = {row["peer"]: row for row in figures["rows"]}
    assert set(by_name) == {"rag bm25", "bm25s, our terms", "rank-bm25"}
    assert by_name["bm25s, our terms"]["top10_overlap"] > 0.95  # equal scores may fall out of the ten
    assert by_name["rank-bm25"]["top10_overlap"] > 0.7
    assert len(by_name["rank-bm25"]["seconds"]["queries"]) == 2
    assert figures["skipped"]["cross-encoder"] == "no weights given: --weights cross-encoder=FOLDER"
    assert "flashrank: skipped, " in done.output
    assert {"cores", "torch"} <= figures["machine"].keys()
    assert figures["versions"]["bm25s"]


def test_retrieval_is_measured_in_a_process_of_its_own(tmp_path):
    record = tmp_path / "retrieval.json"
    done = run("retrieval", "--retriever", "bm25", "--counts", "20", "--repeats", 2, "--json", record)
    assert done.exit_code == 0, done.output
    figures = json.loads(record.read_text())
    assert [(row["retriever"], row["documents"]) for row in figures["rows"]] == [("bm25", 20)]
    assert all(row["index_s"] > 0 and row["query_s"] > 0 for row in figures["rows"])
    assert figures["machine"]["cores"]


def test_what_is_not_accepted_is_named():
    assert "known: rag bm25, bm25s" in str(run("peers", "--peer", "lucene").exception)
    assert isinstance(run("peers", "--weights", "bm25s=x").exception, InputError)
    assert isinstance(run("retrieval", "--retriever", "x").exception, ConfigError)
    assert "whole numbers of 2 or more" in str(run("retrieval", "--counts", "1,a").exception)
