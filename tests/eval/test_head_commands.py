"""``rag heads detect --method``, ``rag heads list`` and ``rag eval stability`` as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rag.attention.heads import HeadList
from rag.cli.app import app
from rag.errors import InputError

DOCUMENTS = {
    "deep": "The harbour is fourteen metres deep, so large ships can enter it.",
    "wall": "Gulls nest on the wall of the harbour.",
    "lamp": "The lighthouse lamp burned whale oil until 1911.",
    "oil": "Whale oil was traded in barrels.",
}
QUERIES = {"q1": ("How deep is the harbour?", "deep"), "q2": ("What did the lamp burn in the lighthouse?", "lamp")}


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("harbour")
    documents = [json.dumps({"_id": name, "title": "", "text": text}) for name, text in DOCUMENTS.items()]
    (folder / "corpus.jsonl").write_text("\n".join(documents))
    queries = [json.dumps({"_id": name, "text": text}) for name, (text, _) in QUERIES.items()]
    (folder / "queries.jsonl").write_text("\n".join(queries))
    (folder / "qrels").mkdir()
    rows = [f"{name}\t{gold}\t1" for name, (_, gold) in QUERIES.items()]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    return folder


def run(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("qr",), "QR score of each head alone"),
        (("contrastive",), "contrastive score (temperature 0.5)"),
        (("contrastive", "--temperature", 0.1), "contrastive score (temperature 0.1)"),
    ],
)
def test_the_artefact_says_by_which_method_its_heads_were_found(options, says, collection, tmp_path):
    output = tmp_path / "heads.json"
    done = run(
        "heads", "detect", collection, "--split", "test", "--candidates", 3, "--layers", 9, "--keep", 3,
        "--method", *options, "-o", output, "--no-progress",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = HeadList.load(output)
    assert found.method.startswith(says)
    assert list(found.scores) == sorted(found.scores, reverse=True)
    assert all(score < 0 for score in found.scores) is (options[0] == "contrastive")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "contrastive", "--temperature", 0), "above 0, given 0"),
        (("--method", "qr", "--temperature", 1), "belongs to --method contrastive, given with qr"),
    ],
)
def test_a_temperature_that_cannot_be_used_is_refused(options, message, collection, tmp_path):
    done = run("heads", "detect", collection, "--split", "test", "-o", tmp_path / "heads.json", *options)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
    assert run("heads", "detect", collection, "-o", "x", "--method", "core").exit_code == 2


def test_published_lists_are_shown_with_their_names(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("heads", "list").output
    assert "published:llama-3.1-8b-nq" in shown
    assert "2506.09944" in shown
    assert "smollm2-135m" in shown


def test_stability_of_a_layout_as_figures(collection):
    command = ("eval", "stability", collection, "-s", "blockrank", "--orders", 3, "--k", 4, "--no-progress", "--json")
    tau = {}
    for layout in ("block", "causal"):
        done = run(*command, "--layout", layout)
        assert done.exit_code == 0, done.output
        figures = json.loads(done.stdout)
        assert figures["layout"] == layout
        tau[layout] = figures["systems"]["blockrank"]["tau"]
    assert tau["block"] == 1.0 > tau["causal"]
    assert "Kendall tau" in run(*command[:-1], "--limit", 1).output
