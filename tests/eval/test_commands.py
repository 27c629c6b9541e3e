"""``rag eval`` and ``rag heads`` as a user calls them, on the demo corpus with the real model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from demo_beir import write_demo
from typer.testing import CliRunner

from rag.attention.heads import HeadList
from rag.cli.app import app
from rag.errors import ArtefactError, ConfigError, InputError


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Path:
    """The demo corpus with its questions, as a BEIR folder: three questions, their passages and nine others."""
    return write_demo(tmp_path_factory.mktemp("demo_beir"), queries=3, others=9)


def run(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_retrieval_compares_retrievers_and_a_reranker(collection, tmp_path):
    record = tmp_path / "figures.json"
    journal = tmp_path / "journal.jsonl"
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("retriever: bm25\nreranker: heads\nretrieve_k: 4\ntop_n: 2\n")
    command = ("eval", "retrieval", collection, "-s", "bm25", "-s", "heads", "--candidates", "bm25", "--k", 4)
    command += ("--pipeline", pipeline)
    done = run(*command, "--journal", journal, "--json", record, "--no-progress")
    assert done.exit_code == 0, done.output
    figures = json.loads(record.read_text())
    assert [row["system"] for row in figures["systems"]] == ["bm25", "heads", "pipeline"]
    _, heads, whole = figures["systems"]
    assert {**whole, "system": "heads"} == heads  # the same stages over the same four candidates
    assert figures["tokens"]["heads"]["p95"] >= figures["tokens"]["heads"]["p50"] > 100
    assert figures["engines"][0]["model"] == "smollm2-135m"
    assert len(figures["engines"]) == 1
    assert figures["queries"] == 3
    assert all(0 < row["nDCG@10"] <= 1 for row in figures["systems"])
    assert figures["seconds"]["heads"]["cold"]["p50"] > figures["seconds"]["heads"]["warm"]["p50"] > 0
    assert len(journal.read_text().splitlines()) == 1 + 3 * 3
    again = run(*command, "--journal", journal, "--json", record, "--no-progress")
    assert again.exit_code == 0, again.output
    assert json.loads(record.read_text())["systems"][1]["nDCG@10"] == figures["systems"][1]["nDCG@10"]


def test_a_run_made_elsewhere_can_be_reranked(collection, tmp_path):
    names = [json.loads(line)["_id"] for line in (collection / "corpus.jsonl").read_text().splitlines()]
    queries = [json.loads(line)["_id"] for line in (collection / "queries.jsonl").read_text().splitlines()]
    file, record = tmp_path / "mine.run", tmp_path / "figures.json"
    file.write_text("".join(f"{q} Q0 {d} {r} {1 / r} mine\n" for q in queries for r, d in enumerate(names[:4], 1)))
    command = ("eval", "retrieval", collection, "-s", "heads", "--candidates", "mine", "--baseline", "mine", "--k", 4)
    done = run(*command, "--run", f"mine={file}", "--json", record, "--no-progress")
    assert done.exit_code == 0, done.output
    before, after = json.loads(record.read_text())["systems"]
    assert (before["system"], after["system"]) == ("mine", "heads")
    assert after["nDCG@10"] >= before["nDCG@10"]
    assert isinstance(run(*command, "--run", "mine").exception, InputError)
    file.write_text(f"{queries[0]} Q0 nowhere 1 1.0 mine\n")
    assert "'nowhere'" in str(run(*command, "--run", f"mine={file}").exception)


def test_an_unknown_system_lists_the_known_ones(collection):
    failed = run("eval", "retrieval", collection, "-s", "qrhead", "--no-progress")
    assert isinstance(failed.exception, ConfigError)
    assert "heads, icr" in str(failed.exception).partition("known: ")[2]


def test_heads_are_found_and_written_with_what_they_belong_to(collection, tmp_path, smollm2):
    from rag.models import fingerprint

    output = tmp_path / "heads.json"
    done = run(
        "heads", "detect", collection, "--split", "test", "--count", 2, "--candidates", 3, "--layers", 9, "--keep", 4,
        "-o", output, "--no-progress",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = HeadList.load(output)
    assert found.fingerprint == fingerprint(smollm2.path)
    assert len(set(found.heads)) == 4
    assert all(head.layer < 9 for head in found.heads)
    assert list(found.scores) == sorted(found.scores, reverse=True)
    with pytest.raises(ArtefactError, match=r"expected model .*, found 0000"):
        found.check("0000", found.template, "block", "document")
    assert "smollm2-135m" in run("heads", "list").output
