"""``rag bench`` as a user calls it, with the real model on a few short passages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from demo_beir import write_demo
from typer.testing import CliRunner

from rag.cli.app import app
from rag.errors import ConfigError, InputError

NOTHING = ("--counts", "", "--batch", "", "--memory", "")


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Path:
    """Two questions of the demo with their passages and six others, as a BEIR folder."""
    return write_demo(tmp_path_factory.mktemp("demo_beir"), queries=2, others=6, split="train")


def run(*arguments: object):
    return CliRunner().invoke(app, ["bench", *(str(a) for a in arguments)])


def test_engine_writes_what_it_shows(tmp_path):
    record, plot = tmp_path / "engine.json", tmp_path / "engine.svg"
    done = run(
        "engine", "--counts", "2,25,26", "--batch", "1,2", "--memory", "", "--tokens", 10, "--repeats", 1,
        "--json", record, "--plot", plot, "--no-progress",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    figures = json.loads(record.read_text())
    assert [row["passages"] for row in figures["sizes"]] == [2, 25, 26]
    assert all(row["published_s"] > row["warm_s"] for row in figures["sizes"])
    assert set(figures["growth"]) == {"published_s", "cold_s", "warm_s", "cache_mib"}
    assert figures["growth"]["cache_mib"] > 0
    assert [row["queries"] for row in figures["batches"]] == [1, 2]
    assert figures["machine"]["torch"]
    assert "N^" in plot.read_text()


def test_memory_is_measured_in_a_process_of_its_own(tmp_path):
    record = tmp_path / "memory.json"
    done = run("engine", *NOTHING[:4], "--memory", 8, "--tokens", 64, "--json", record, "--no-progress")
    assert done.exit_code == 0, done.output
    quarter, whole = json.loads(record.read_text())["memory"]
    assert quarter["budget_mib"] < whole["budget_mib"] == pytest.approx(whole["list_mib"])
    for row in (quarter, whole):
        assert row["cache_mib"] <= row["budget_mib"]
        assert row["peak_mib"] >= row["resident_mib"] > row["imports_mib"] > 50
        assert row["excess_mib"] == pytest.approx(row["resident_mib"] - row["budget_mib"] - row["model_mib"])
        assert row["within"] == (row["excess_mib"] <= 300)
        assert row["excess_mib"] < 600
    assert "excess" in done.output


def test_every_cache_precision_is_judged_on_the_same_candidates(collection, tmp_path):
    record = tmp_path / "quality.json"
    done = run(
        "engine", *NOTHING, "--quality", collection, "--count", 2, "--candidates", 4, "--json", record, "--no-progress"
    )
    assert done.exit_code == 0, done.output
    quality = json.loads(record.read_text())["quality"]
    assert (quality["queries"], quality["candidates"], quality["split"]) == (2, 4, "train")
    rows = {row["precision"]: row for row in quality["precisions"]}
    assert list(rows) == ["float32", "float16", "bfloat16", "int8"]
    assert rows["float32"]["score_error"] == rows["float32"]["ndcg_loss"] == 0
    assert 0 < rows["float16"]["attention_error"] < rows["bfloat16"]["attention_error"] < 0.3
    assert rows["float16"]["attention_error"] < rows["int8"]["attention_error"] < 0.3
    assert rows["float32"]["token_bytes"] > 3.5 * rows["int8"]["token_bytes"]
    assert 0 < rows["float32"]["ndcg"] <= 1


def test_a_collection_without_anything_relevant_is_refused(collection, tmp_path):
    for name in ("corpus.jsonl", "queries.jsonl"):
        (tmp_path / name).write_text((collection / name).read_text())
    (tmp_path / "qrels").mkdir()
    first = json.loads((collection / "queries.jsonl").read_text().splitlines()[0])["_id"]
    (tmp_path / "qrels" / "train.tsv").write_text(f"query-id\tcorpus-id\tscore\n{first}\tnowhere\t1")
    failed = run("engine", *NOTHING, "--quality", tmp_path)
    assert isinstance(failed.exception, InputError)
    assert "nothing relevant" in str(failed.exception) or "has anything relevant" in str(failed.exception)


@pytest.mark.parametrize("counts", ["a", "0", "3,-1", ","])
def test_counts_that_are_no_numbers_are_refused(counts):
    failed = run("engine", "--counts", counts)
    assert isinstance(failed.exception, InputError)
    assert "accepted: whole numbers" in str(failed.exception)


def test_a_benchmark_of_nothing_is_refused():
    assert "nothing to measure" in str(run("engine", *NOTHING).exception)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without CUDA")
def test_gpu_without_cuda_is_one_clear_error():
    failed = run("gpu")
    assert isinstance(failed.exception, ConfigError)
    assert "'cuda' cannot be used" in str(failed.exception)
    assert "--device cpu" in str(failed.exception)
