"""``rag order`` as a user calls it, with the real model on a few short documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rag.cli.app import app
from rag.compressors.ordering import SlotProfile
from rag.errors import ArtefactError, ConfigError, InputError
from rag.eval.results_views import VIEWS, kind_of

SENTENCES = ("The harbour is 14 metres deep.", "Bread is sold out by nine.", "Fog is common in autumn.")


@pytest.fixture(scope="module")
def qa(tmp_path_factory: pytest.TempPathFactory) -> Path:
    documents = [{"_id": str(i), "title": "", "text": text, "supporting": i == 0} for i, text in enumerate(SENTENCES)]
    asked = (("a", "How deep is the harbour?", "14 metres"), ("b", "What is 14 metres deep?", "harbour"))
    lines = [{"_id": name, "question": q, "answers": [answer], "documents": documents} for name, q, answer in asked]
    lines.append({"_id": "c", "question": "Who?", "answers": ["nobody"], "documents": documents})
    file = tmp_path_factory.mktemp("qa") / "qa.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "settings.yaml"
    file.write_text("retriever: bm25\nreranker: null\n")
    return file


def run(*arguments: object):
    return CliRunner().invoke(app, ["order", *map(str, arguments)])


def test_profile_measures_plots_and_goes_on(qa: Path, tmp_path: Path) -> None:
    output, journal, plot = tmp_path / "profile.json", tmp_path / "readings.jsonl", tmp_path / "basin.png"
    command = ("profile", qa, "-o", output, "--documents", "2,3", "--journal", journal, "--no-progress")
    done = run(*command, "--prompts", 2, "--layer", "mean", "--plot", plot)
    assert done.exit_code == 0, done.output
    profile = SlotProfile.load(output)
    assert {count: curve.prompts for count, curve in profile.curves.items()} == {2: 2, 3: 2}
    assert all(sum(curve.attention) == pytest.approx(count, abs=1e-3) for count, curve in profile.curves.items())
    assert plot.read_bytes().startswith(b"\x89PNG")
    lines = journal.read_text().splitlines()
    assert len(lines) == 1 + 2 * 2
    again = run(*command, "--prompts", 2, "--layer", 3)
    assert again.exit_code == 0, again.output
    assert journal.read_text().splitlines() == lines
    assert SlotProfile.load(output).layers == (3, 3)
    assert "accepted: whole numbers of 2 or more" in str(run(*command, "--documents", "5,1").exception)
    wrong = run(*command, "--layer", "top")
    assert isinstance(wrong.exception, InputError)
    assert "accepted: basin, mean, or a layer's number" in str(wrong.exception)
    other = tmp_path / "notes.jsonl"
    other.write_text("\n".join(json.dumps({"text": text}) for text in SENTENCES))
    refused = run("profile", other, *command[2:])
    assert isinstance(refused.exception, ArtefactError)


def test_effects_compares_places_and_orderings(qa: Path, config: Path, tmp_path: Path) -> None:
    record, journal = tmp_path / "figures.json", tmp_path / "journal.jsonl"
    command = ("effects", qa, "--documents", 3, "-s", "ranked", "-s", "attnrank", "--shuffles", 2, "-c", config)
    done = run(*command, "--journal", journal, "--json", record, "--no-progress")
    assert done.exit_code == 0, done.output
    assert "no ordering was shown to be better than random order (2 questions)" in done.output
    figures = json.loads(record.read_text())
    assert (figures["questions"], figures["skipped"]) == (2, 1)
    assert [row["name"] for row in figures["places_against_their_mean"]] == ["1", "2", "3"]
    assert [row["name"] for row in figures["orderings_against_shuffle"]] == ["ranked", "attnrank"]
    assert all(value < 0 for item in figures["readings"] for value in item["places"])
    assert len(journal.read_text().splitlines()) == 3
    shown = VIEWS[kind_of(figures)](figures, {})
    assert shown.count("no difference shown") == 3 + 2
    assert shown.endswith("no ordering was shown to be better than random order (2 questions).")
    again = run(*command, "--journal", journal, "--json", record, "--no-progress")
    assert again.exit_code == 0, again.output
    assert json.loads(record.read_text()) == figures


def test_effects_refuses_what_it_does_not_know(qa: Path, config: Path) -> None:
    unknown = run("effects", qa, "--documents", 3, "-s", "backwards", "-c", config, "--no-progress")
    assert isinstance(unknown.exception, ConfigError)
    assert "attnrank" in str(unknown.exception)
