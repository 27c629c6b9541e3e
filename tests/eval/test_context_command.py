"""``rag eval context`` and ``rag eval breakeven`` as a user calls them, with the real models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from qa_files import write_qa
from typer.testing import CliRunner

from rag.cli.app import app
from rag.cli.eval_context import load_collections
from rag.errors import ConfigError, InputError
from rag.eval.folds import fold_of
from rag.eval.results_views import VIEWS, kind_of


@pytest.fixture
def file(tmp_path) -> Path:
    return write_qa(tmp_path / "town.jsonl")


def run(*arguments: object):
    return CliRunner().invoke(app, ["eval", *(str(a) for a in arguments)])


def test_compressors_are_compared_and_a_reader_answers(file, tmp_path):
    record, curves, journal = (tmp_path / name for name in ("figures.json", "curves.svg", "journal.jsonl"))
    command = (
        "context", file, "-s", "attention", "-s", "plain=bm25:k1=1.2", "-b", 0.3, "-b", 0.6, "--baseline", "plain",
        "--reader", "smollm2-135m", "--limit", 2, "--journal", journal, "--json", record, "--plot", curves,
        "--no-progress",
    )  # fmt: skip
    done = run(*command)
    assert done.exit_code == 0, done.output
    assert "town, 2 questions" in done.output
    assert "full context" in done.output
    figures = json.loads(record.read_text())
    assert figures["collections"] == {"town": {"questions": 2, "sentences_not_found": 0}}
    assert figures["systems"]["plain"] == {"name": "bm25", "options": {"k1": 1.2}}
    rows = {(row["system"], row["budget"]): row for row in figures["rows"]}
    assert set(rows) == {
        ("no context", 0), ("full context", 1), *((name, b) for name in ("attention", "plain") for b in (0.3, 0.6)),
    }  # fmt: skip
    assert rows["plain", 0.3]["means"]["recall"] == 1
    assert rows["attention", 0.3]["against"]["recall"]["difference"] <= 0
    assert 0 <= rows["full context", 1]["means"]["f1"] <= 1
    assert len(figures["questions"]) == 2 * 6
    assert figures["reader"]["reader"] == "smollm2-135m"
    assert curves.read_text().startswith("<?xml")
    assert len(journal.read_text().splitlines()) == 1 + 2 * 2
    answers = (tmp_path / "journal.answers.jsonl").read_text()
    again = run(*command)
    assert again.exit_code == 0, again.output
    assert json.loads(record.read_text())["questions"] == figures["questions"]
    assert (tmp_path / "journal.answers.jsonl").read_text() == answers


def test_only_what_is_left_of_the_documents_after_reranking(file, tmp_path):
    record = tmp_path / "figures.json"
    done = run(
        "context", file, "-s", "first", "-b", 1, "--rerank", "--top-n", 1, "--limit", 1, "--json", record,
        "--no-progress",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    figures = json.loads(record.read_text())
    assert (figures["ranking"]["top_n"], figures["ranking"]["reranker"]["name"]) == (1, "probe")
    (row,) = figures["rows"]
    assert (row["means"]["recall"], row["counts"]["recall"]) == (1, 1)
    assert row["means"]["ratio"] < 0.5


def test_held_out_questions_are_chosen_by_fold_or_id(file, tmp_path):
    parts = [{item.query.id for item in of["town"]} for of in (_fold(file, i) for i in range(2)) if of]
    assert set().union(*parts) == {"q1", "q2", "q3"}
    assert sum(map(len, parts)) == 3
    ids = tmp_path / "ids.txt"
    ids.write_text("q3\n\nq1 \n")
    assert [item.query.id for item in load_collections([file], None, ids, None)["town"]] == ["q1", "q3"]
    ids.write_text("q1\nq9\n")
    with pytest.raises(InputError, match="1 of its ids are in no file, the first is 'q9'"):
        load_collections([file], None, ids, None)
    with pytest.raises(InputError, match="two files are called 'town'"):
        load_collections([file, file], None, None, None)


def _fold(file: Path, index: int):
    if not any(fold_of(name, 2) == index for name in ("q1", "q2", "q3")):
        return None
    return load_collections([file], f"{index}/2", None, None)


def test_a_file_called_qa_goes_by_its_folder(tmp_path):
    (tmp_path / "hotpot").mkdir()
    file = write_qa(tmp_path / "hotpot" / "qa.jsonl")
    assert list(load_collections([file], None, None, 1)) == ["hotpot"]


def test_what_is_not_accepted_is_said(file):
    assert isinstance(run("context", file, "-s", "bm25", "--baseline", "dense").exception, ConfigError)
    assert "accepted: i/n" in str(run("context", file, "--fold", "3/3").exception)
    assert "(0, 1]" in str(run("context", file, "-s", "bm25", "-b", 20, "--no-progress").exception)
    assert "no such file" in str(run("context", "nowhere.jsonl").exception)


def test_break_even_is_measured_and_written(tmp_path):
    record = tmp_path / "figures.json"
    done = run(
        "breakeven", "--tokens", 200, "--repeats", 1, "--rate", "my reader=5000", "--size", "1.5B", "--json", record,
        "--no-progress",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "my reader" in done.output
    assert "1.5B (estimate)" in done.output
    figures = json.loads(record.read_text())
    assert (figures["system"]["name"], figures["reranker"]["name"]) == ("sentinel", "probe")
    assert [reader["name"] for reader in figures["readers"]] == ["the same model", "my reader", "1.5B"]
    (row,) = figures["lengths"]
    assert row["kept"] <= 0.2 * row["tokens"]
    assert figures["readers"][1]["saved_s"] == [pytest.approx((row["tokens"] - row["kept"]) / 5000)]
    assert "| my reader | 5,000 |" in VIEWS[kind_of(figures)](figures, {})


def test_break_even_needs_a_compressor(tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text("compressor: null")
    assert "the settings have no compressor" in str(run("breakeven", "-c", settings).exception)


@pytest.mark.parametrize(
    ("option", "value"), [("--rate", "5000"), ("--rate", "x=fast"), ("--size", "big"), ("--size", "0B")]
)
def test_break_even_options_that_are_not_accepted(option, value):
    failed = run("breakeven", option, value)
    assert isinstance(failed.exception, InputError)
    assert "accepted" in str(failed.exception)
