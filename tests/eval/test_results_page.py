from __future__ import annotations

import json
from pathlib import Path

import pytest
from records import words_collection, words_record
from typer.testing import CliRunner

from rag.cli.app import app
from rag.errors import ArtefactError, InputError
from rag.eval.results_page import read_records, results_page
from rag.eval.results_views import VIEWS, kind_of, p_value

DOCS = Path(__file__).parents[2] / "docs"


def block(text):
    return f"# Measured\n\n```record\n{text}\n```\n\nProse.\n"


def test_the_page_in_the_repository_is_what_its_records_give():
    done = CliRunner().invoke(app, ["results", str(DOCS / "records"), "-o", str(DOCS / "results.md"), "--check"])
    assert done.exit_code == 0, f"{done.exception}: run `rag results`"


def test_every_record_in_the_repository_has_a_view():
    kinds = {name: kind_of(record) for name, record in read_records(DOCS / "records").items()}
    assert {name: kind for name, kind in kinds.items() if kind not in VIEWS} == {}


def test_a_table_stands_where_its_block_was():
    record = words_record()
    text = "file: w.json\nheading: Words\nbaseline_label: nothing\nlabels: {bm25: 'BM25 | plain'}"
    page = results_page(block(text), {"w.json": record})
    lines = page.splitlines()
    assert lines[2] == "| Words | nDCG@10 | RR@10 | against nothing | p |"
    assert lines[4].endswith("| | |")
    assert lines[5].startswith("| BM25 \\| plain | 1.0000 | 1.000 | +0.")
    assert page.endswith("\nProse.\n")


def test_records_that_the_template_does_not_name_are_not_lost():
    context = {
        "evaluation": "context",
        "baseline": "dense",
        "rows": [
            {"collection": "qa", "system": "dense", "budget": 0.2, "questions": 3,
             "means": {"ratio": 0.2, "recall": 0.5}, "against": {}},
            {"collection": "qa", "system": "attention", "budget": 0.2, "questions": 3,
             "means": {"ratio": 0.2, "recall": 0.75},
             "against": {"recall": {"difference": 0.25, "p_randomisation": 0.0312}}},
        ],
    }  # fmt: skip
    records = {
        "new.json": words_record(words_collection(synthetic=True)),
        "context.json": context,
        "odd.json": {"a": 1},
    }
    page = results_page("# Measured\n", records)
    assert "`new.json` (retrieval)" in page
    assert "Synthetic: " in page
    assert "| attention | 0.2 | 0.200 | 0.750 | +0.250 | 0.031 |" in page
    assert "- `odd.json`: unknown" in page


def test_benchmarks_have_a_table_per_part():
    record = {"benchmark": "engine", "sizes": [], "batches": [{"queries": 4, "one_list_s_per_query": 0.5}]}
    page = results_page(block("file: e.json\npart: batches"), {"e.json": record})
    assert "| 4 | 0.500 | - |" in page
    bm25 = {"peer": "bm25s", "version": "0.3", "queries_s": 0.5, "noisy": True}
    compress = {"peer": "llmlingua", "version": "0.2.2", "queries_s": 2, "kept_share": 0.25, "within": 3}
    page = results_page("", {"p.json": {"benchmark": "peers", "rows": {"bm25": [bm25], "compress": [compress]}}})
    assert "| bm25s | 0.3 | - | 0.5 | - | - | - | yes |" in page
    assert "| llmlingua | 0.2.2 | 2 | - | 25.0% | 3 | |" in page
    assert kind_of({"benchmark": "retrieval", "rows": []}) == "bench retrieval"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file: none.json", "template, line 3: no record 'none.json'; there are: w.json, odd.json"),
        ("file: odd.json", "a record of kind 'unknown' has no view"),
        ("file: [", "template, line 3: not YAML"),
        ("heading: x", "with `file: NAME.json`"),
        ("file: w.json\nsystems: [heads]", "no system 'heads'; it has: blind, bm25"),
    ],
)
def test_a_block_that_does_not_fit_is_named(text, message):
    with pytest.raises(InputError) as failed:
        results_page(block(text), {"w.json": words_record(), "odd.json": {}})
    assert message in str(failed.value)


def test_p_values_have_two_digits_and_a_floor():
    assert [p_value(p) for p in (0.00004, 0.00086, 0.0712, 0.3867, 1.0)] == ["< 0.0001", "0.0009", "0.071", "0.39", "1"]


def test_the_command_writes_and_checks(tmp_path):
    records = tmp_path / "records"
    records.mkdir()
    (records / "w.json").write_text(json.dumps(words_record()))
    (records / "template.md").write_text(block("file: w.json"))
    command = ["results", str(records), "-o", str(tmp_path / "page.md")]
    assert isinstance(CliRunner().invoke(app, [*command, "--check"]).exception, ArtefactError)
    assert CliRunner().invoke(app, command).exit_code == 0
    assert CliRunner().invoke(app, [*command, "--check"]).exit_code == 0
    assert isinstance(CliRunner().invoke(app, ["results", str(tmp_path)]).exception, InputError)
