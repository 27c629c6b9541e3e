from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from rag.budget import Budget
from rag.cli.app import app
from rag.cli.bench_peers import PEER_COLUMNS
from rag.errors import BudgetError, ConfigError, InputError
from rag.eval import peers_compress, peers_rerank
from rag.eval.bench_engine import Timing
from rag.eval.bench_peers import PEERS, Measured, Peer, rows, run_peers
from rag.eval.peers_compress import Compressions, Kept
from rag.eval.peers_work import Rankings, Run, Work
from rag.types import Document, Query, ScoredDocument

HARBOUR = (
    "The harbour of Kestrel Point was dredged in 1961 to a depth of 14 metres. Boats rest there at night. "
    "Gulls nest on its wall. The quay was built of granite by the monks."
)
TOWN = "The town is old and was founded in 1203. Rain falls daily on its slate roofs. The monks kept bees. "


def run(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments), "--no-progress"])


@pytest.fixture(scope="module")
def work() -> Work:
    documents = (Document("town", TOWN), Document("harbour", HARBOUR))
    candidates = tuple(ScoredDocument(document, 0.0, rank) for rank, document in enumerate(documents, 1))
    return Work(documents, (Query("How deep is the harbour?"),), (candidates,), repeats=1, budget=Budget(0.4, "ratio"))


@pytest.fixture(scope="module")
def warm(work) -> Run:
    return peers_compress.sentinel(work, warm=True)


def test_ratios_have_the_range_that_the_repeats_allow():
    ours = Run(Timing((1.0, 1.0)), Timing((2.0, 2.2)), Rankings((("a", "b"),)))
    theirs = Run(Timing((4.0, 4.0)), Timing((8.0, 16.0)), Rankings((("a", "c"),)))
    first, second = rows([Measured("rag bm25", "1", ours), Measured("rank-bm25", "2", theirs)])
    assert (first["queries_ratio"], first["top10_overlap"], first["noisy"]) == (None, None, False)
    assert second["index_ratio"] == 4.0
    assert second["queries_ratio"] == pytest.approx(12 / 2.1)
    assert second["queries_ratio_range"] == pytest.approx([8 / 2.2, 16 / 2])
    assert second["top10_overlap"] == 0.5
    assert second["noisy"]


def test_without_ours_there_is_no_ratio():
    (row,) = rows([Measured("bm25s", "1", Run(None, Timing((1.0,)), Rankings(())))])
    assert (row["index_s"], row["queries_ratio"], row["top10_overlap"]) == (None, None, None)
    assert Rankings((("b",), ("c",))).overlap(Rankings((("a",), ()))) == 0.0


def test_compressors_are_told_apart_by_what_they_keep():
    kept = Compressions((Kept(100, 20, 20), Kept(100, 20, 21), Kept(50, 10, 10)))
    measured = [
        Measured("rag sentinel, warm", "1", Run(None, Timing((1.0,)), Compressions(()))),
        Measured("llmlingua", "2", Run(None, Timing((3.0,)), kept)),
    ]
    ours, theirs = rows(measured)
    assert (ours["kept_share"], ours["within"]) == (None, 0)
    assert theirs["kept_share"] == pytest.approx((0.2 + 0.21 + 0.2) / 3)
    assert (theirs["within"], theirs["queries_ratio"]) == (2, 3.0)
    assert "top10_overlap" not in theirs


def test_sentinel_keeps_the_same_within_the_budget_warm_and_cold(work, warm):
    (kept,) = warm.outcome.of
    assert kept.limit == int(0.4 * kept.given)
    assert 0 < kept.kept <= kept.limit
    assert peers_compress.sentinel(work, warm=False).outcome == warm.outcome


def test_llmlingua_is_given_the_same(work, warm):
    pytest.importorskip("llmlingua")
    (theirs,) = peers_compress.llmlingua(work, "llmlingua").outcome.of
    (ours,) = warm.outcome.of
    assert (theirs.given, theirs.limit) == (ours.given, ours.limit)
    assert 0 < theirs.kept < theirs.given


def test_one_group_has_one_of_ours():
    for group in {peer.group for peer in PEERS.values()}:
        assert sum(peer.ours for peer in PEERS.values() if peer.group == group) == 1


def test_every_group_has_a_table():
    assert {peer.group for peer in PEERS.values()} == set(PEER_COLUMNS)


def test_a_peer_says_what_it_lacks(tmp_path):
    nowhere = tmp_path / "nowhere"
    absent = Peer("compress", "no-such-package", PEERS["llmlingua"].measure, install="rag-context[none]")
    assert absent.missing("absent") == "not installed: pip install rag-context[none]"
    assert PEERS["cross-encoder"].missing("cross-encoder") == "no weights given: --weights cross-encoder=FOLDER"
    assert PEERS["cross-encoder"].missing("cross-encoder", nowhere) == f"no folder {nowhere}"
    assert PEERS["cross-encoder"].missing("cross-encoder", tmp_path) == ""
    assert PEERS["rag sentinel, warm"].missing("rag sentinel, warm") == ""


def test_a_peer_that_fails_is_a_row_and_the_others_go_on(work):
    measured, skipped = run_peers(replace(work, documents=()), ["rank-bm25", "rag bm25"], {})
    failed, ours = rows(measured)
    assert not skipped
    assert failed == {"peer": "rank-bm25", "version": failed["version"], "error": "ZeroDivisionError: division by zero"}
    assert (ours["peer"], ours["error"], ours["queries_ratio"]) == ("rag bm25", None, None)
    assert ours["queries_s"] > 0


def test_bm25_and_its_peers_find_the_same(tmp_path):
    record = tmp_path / "peers.json"
    flags = [text for name in ("rag bm25", "bm25s, our terms", "rank-bm25", "flashrank", "cross-encoder")
             for text in ("--peer", name)]  # fmt: skip
    flags += ["--weights", f"cross-encoder={tmp_path}"]  # no model in it
    done = run("peers", *flags, "--queries", 6, "--repeats", 2, "--json", record)
    assert done.exit_code == 0, done.output
    figures = json.loads(record.read_text())
    assert figures["queries"] == {"bm25": 6, "rerank": 5}
    by_name = {row["peer"]: row for row in figures["rows"]["bm25"]}
    assert set(by_name) == {"rag bm25", "bm25s, our terms", "rank-bm25"}
    assert by_name["bm25s, our terms"]["top10_overlap"] > 0.95  # equal scores may fall out of the ten
    assert by_name["rank-bm25"]["top10_overlap"] > 0.7
    assert len(by_name["rank-bm25"]["seconds"]["queries"]) == 2
    assert figures["rows"]["rerank"][0]["error"]
    assert "cross-encoder: failed, " in done.output
    assert set(figures["skipped"]) == {"flashrank"}
    assert "flashrank: skipped, " in done.output
    assert {"cores", "torch"} <= figures["machine"].keys()
    assert figures["versions"]["bm25s"]


def test_probe_reranks_the_candidates(work):
    reranked = peers_rerank.probe(work, warm=False)
    assert reranked.outcome == Rankings((("harbour", "town"),))
    assert reranked.index is None


def test_compressors_get_candidates_and_a_budget(tmp_path):
    record = tmp_path / "peers.json"
    flags = ("--model-queries", 1, "--candidates", 3, "--keep", 0.3, "--repeats", 1, "--json", record)
    done = run("peers", "--peer", "rag sentinel, warm", *flags)
    assert done.exit_code == 0, done.output
    figures = json.loads(record.read_text())
    assert figures["queries"] == {"compress": 1}
    (row,) = figures["rows"]["compress"]
    assert (row["peer"], row["version"]) == ("rag sentinel, warm", figures["versions"]["rag-context"])
    assert 0 < row["kept_share"] <= 0.3
    assert row["within"] == 1
    assert "3 candidates each, 30% of the tokens may be kept" in done.output


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
    assert isinstance(run("peers", "--keep", "1.5").exception, BudgetError)
    assert isinstance(run("retrieval", "--retriever", "x").exception, ConfigError)
    assert "whole numbers of 2 or more" in str(run("retrieval", "--counts", "1,a").exception)
