"""``rag eval retrieval`` with pipelines, reports and a user's own files; no language model is needed for these."""

from __future__ import annotations

import json

import pytest
from records import words_record
from typer.testing import CliRunner

from rag.cli.app import app
from rag.errors import ConfigError, InputError
from rag.eval.report_record import write_record
from rag.eval.runs import read_run

WORDS = ("harbour", "lamp", "bread", "tide", "boat", "salt")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("words")
    documents = [{"_id": f"d{i}", "title": "", "text": f"the {word} of the town"} for i, word in enumerate(WORDS)]
    (root / "corpus.jsonl").write_text("".join(json.dumps(of) + "\n" for of in documents))
    queries = [{"_id": f"d{i}", "text": f"{word} town"} for i, word in enumerate(WORDS)]
    (root / "queries.jsonl").write_text("".join(json.dumps(of) + "\n" for of in queries))
    (root / "qrels").mkdir()
    rows = [f"d{i}\td{i}\t1\nd{i}\td{(i + 1) % len(WORDS)}\t1" for i in range(len(WORDS))]
    (root / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(rows) + "\n")
    for name, retriever in (("plain", "bm25"), ("flat", "{name: bm25, options: {k1: 0}}"), ("okapi", "rank-bm25")):
        (root / f"{name}.yaml").write_text(f"retriever: {retriever}\nreranker: null\ncompressor: null\n")
    return root


def run(*arguments):
    return CliRunner().invoke(
        app, ["eval", *map(str, arguments), *(["--no-progress"] if "retrieval" in arguments else [])]
    )


def test_pipelines_are_compared_and_reported(folder, tmp_path):
    outputs = {"--json": "r.json", "--report": "r.html", "--markdown": "r.md", "--csv": "r.csv"}
    flags = [text for flag, name in outputs.items() for text in (flag, tmp_path / name)]
    pipelines = (
        "-p",
        folder / "plain.yaml",
        "-p",
        f"level={folder / 'flat.yaml'}",
        "--pipeline",
        folder / "okapi.yaml",
    )
    command = ("retrieval", folder, *pipelines, "--journal", tmp_path / "j.jsonl", "--save-runs", tmp_path / "runs")
    done = run(*command, *flags)
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "r.json").read_text())
    assert [row["system"] for row in record["systems"]] == ["plain", "level", "okapi"]
    assert record["baseline"] == "plain"
    assert record["seconds"]["plain"]["retrieval"]["p95"] > 0
    assert record["identities"]["level"]["retriever"] == {"name": "bm25", "options": {"k1": 0.0}}
    assert record["versions"]["bm25s"]
    assert len(record["questions"]) == 6
    assert "nDCG@10 - plain" in done.output
    for name, mark in (("r.html", "<!doctype html>"), ("r.md", "# words"), ("r.csv", "collection,queries,system")):
        assert (tmp_path / name).read_text().startswith(mark)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["level.run", "okapi.run", "plain.run"]
    assert len(read_run(tmp_path / "runs" / "plain.run")) == 6
    lines = (tmp_path / "j.jsonl").read_text().splitlines()
    assert run(*command, *flags).exit_code == 0
    assert (tmp_path / "j.jsonl").read_text().splitlines() == lines  # all of it was read from the journal
    again = run("report", tmp_path / "r.json", "--markdown", tmp_path / "again.md")
    assert again.exit_code == 0, again.output
    same = run("compare", tmp_path / "r.json", tmp_path / "r.json", "--json", tmp_path / "c.json")
    assert "are the same in both" in same.output
    assert json.loads((tmp_path / "c.json").read_text())["changes"][0]["queries"] == 6


def test_systems_take_options_and_labels(folder, tmp_path):
    done = run("retrieval", folder, "-s", "bm25:k1=0,b=0", "-s", "okapi=rank-bm25:k1=2", "--baseline", "okapi",
               "--json", tmp_path / "r.json", "--failures", 0)  # fmt: skip
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "r.json").read_text())
    assert [row["system"] for row in record["systems"]] == ["bm25:k1=0,b=0", "okapi"]
    refused = run("retrieval", folder, "-s", "bm25:k2=0")
    assert isinstance(refused.exception, ConfigError)
    assert "k1" in str(refused.exception)


def test_what_finds_itself_is_left_out_by_name_and_on_request(folder, tmp_path):
    def rankings(*flags, source=folder):
        done = run("retrieval", source, "-s", "bm25", *flags, "--json", tmp_path / "r.json")
        assert done.exit_code == 0, done.output
        return json.loads((tmp_path / "r.json").read_text()), done.output

    kept, _ = rankings()
    assert kept["questions"][0]["rankings"]["bm25"][0][0] == "d0"
    removed, said = rankings("--remove-self")
    assert "left out (as asked)" in said
    assert "d0" not in [name for name, _ in removed["questions"][0]["rankings"]["bm25"]]
    arguana = tmp_path / "arguana"
    arguana.symlink_to(folder)
    by_name, said = rankings(source=arguana)
    assert "the default for arguana; --keep-self keeps them" in said
    assert by_name["remove_self"]
    assert by_name["questions"] == removed["questions"]
    assert not rankings("--keep-self", source=arguana)[0]["remove_self"]


def test_files_of_ones_own(folder, tmp_path):
    (tmp_path / "mine.csv").write_text("id,text\n" + "".join(f"d{i},the {word}\n" for i, word in enumerate(WORDS)))
    (tmp_path / "q.tsv").write_text("q\tharbour\n")
    (tmp_path / "j.qrels").write_text("q 0 d0 1\n")
    own = ("--corpus", tmp_path / "mine.csv", "--queries", tmp_path / "q.tsv", "--qrels", tmp_path / "j.qrels")
    done = run("retrieval", *own, "-s", "bm25", "--json", tmp_path / "r.json")
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "r.json").read_text())
    assert (record["collection"], record["systems"][0]["nDCG@10"]) == ("mine", 1.0)
    assert isinstance(run("retrieval", *own[:2]).exception, InputError)
    assert isinstance(run("retrieval", folder, "-p", folder / "absent.yaml").exception, ConfigError)


def test_the_queries_that_differ_most_are_shown_on_request(tmp_path):
    write_record(tmp_path / "r.json", words_record())
    shown = run("report", tmp_path / "r.json", "--failures", 1)
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("one of the largest gains") == 2  # of bm25 and of the mixed system
    assert "(1) d9: On coast" in shown.output
    assert "largest" not in run("report", tmp_path / "r.json").output
    run("report", tmp_path / "r.json", "--report", tmp_path / "r.html", "--failures", 0)
    assert "largest gains" not in (tmp_path / "r.html").read_text()
