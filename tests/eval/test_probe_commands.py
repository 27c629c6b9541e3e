"""``rag probe`` as a user calls it, on the demo corpus with the real models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from demo_beir import write_demo
from qa_files import write_qa
from typer.testing import CliRunner

from rag.attention.probe import Probe
from rag.cli.app import app
from rag.errors import InputError


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Path:
    """The demo corpus with its questions as a BEIR folder: their passages and ten others."""
    return write_demo(tmp_path_factory.mktemp("village"))


def run(*arguments: object):
    return CliRunner().invoke(app, ["probe", *map(str, arguments)])


def test_a_document_probe_is_trained_judged_on_other_queries_and_refused_its_own(collection, tmp_path):
    output, figures, cache = tmp_path / "probe.json", tmp_path / "figures.json", tmp_path / "cache"
    command = ("train", f"{collection}:test", "-o", output, "--count", 4, "--k", 4, "--folds", 3, "--layers", 8)
    done = run(*command, "--cache", cache, "--json", figures, "--no-progress")
    assert done.exit_code == 0, (done.output, done.exception)
    probe = Probe.load(output)
    assert probe.task == "document"
    assert set(probe.signals) <= {"bm25", "dense"}
    assert all(item.head.layer < 8 for item in probe.heads)
    assert [len(source.queries) for source in probe.data] == [4]
    (row,) = json.loads(figures.read_text())["nDCG@10"]
    assert [order["name"] for order in row["orders"]][:2] == ["fused", "bm25"]
    first = output.read_bytes()
    assert run(*command, "--cache", cache, "--no-progress").exit_code == 0
    assert output.read_bytes() == first

    judged = run("eval", f"{collection}:test", "-f", output, "--skip", 4, "--k", 4, "--no-progress")
    assert judged.exit_code == 0, (judged.output, judged.exception)
    assert "probe" in judged.output
    refused = run("eval", f"{collection}:test", "-f", output, "--k", 4, "--no-progress")
    assert isinstance(refused.exception, InputError)
    assert "were learned from" in str(refused.exception)


def test_a_sentence_probe_is_trained_without_a_fold_and_judged_on_it(tmp_path):
    source, output = write_qa(tmp_path / "village.jsonl"), tmp_path / "probe.json"
    done = run("train", source, "--task", "sentence", "-o", output, "--folds", 3, "--layers", 8, "--no-progress")
    assert done.exit_code == 0, (done.output, done.exception)
    probe = Probe.load(output)
    assert {item.statistic for item in probe.heads} <= {"share", "document"}
    assert probe.bias < 0
    refused = run("eval", source, "--task", "sentence", "-f", output, "--no-progress")
    assert isinstance(refused.exception, InputError)
    assert "3 of 3 queries were learned from" in str(refused.exception)


def test_the_shipped_probes_are_listed():
    done = run("list")
    assert done.exit_code == 0
    assert "document" in done.output
    assert "sentence" in done.output
