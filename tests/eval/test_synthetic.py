from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rag.cli.app import app
from rag.errors import InputError
from rag.eval.collections import load_beir
from rag.eval.synthetic import asked_by_model, from_headings, pooled, write_synthetic
from rag.types import Document

DOCUMENTS = (
    Document("a", "# Depth of the harbour\n\nIt is 14 m deep.\n## Depth of the harbour\nAgain."),
    Document("b", "Gulls nest on its wall.", title="Birds of the coast"),
    Document("c", "Nothing is said here.", title="Introduction"),
    Document("d", "A text below it.", title="Shared heading words"),
    Document("e", "Another text.", title="shared heading words"),
    Document("f", "## Notes\n\n## Lamps and their oil\nThey burn at night."),
    Document("g", "# Only a heading"),
)


def test_headings_are_queries_and_leave_the_documents():
    made = from_headings(DOCUMENTS)
    asked = {query.text: next(iter(made.qrels[query.id])) for query in made.queries}
    assert asked == {"Depth of the harbour": "a", "Birds of the coast": "b", "Lamps and their oil": "f"}
    documents = {document.id: document for document in made.documents}
    assert documents["a"].text == "It is 14 m deep.\nAgain."
    assert documents["b"].title == ""
    assert documents["f"].text == "## Notes\n\nThey burn at night."
    assert documents["c"] == DOCUMENTS[2]
    assert len(made.documents) == len(DOCUMENTS)
    assert made.notes == ("4 document(s) without a heading of its own that can be a query",)


def test_the_draw_is_the_same_for_a_seed():
    first, again = (from_headings(DOCUMENTS, 2, seed=3) for _ in range(2))
    assert first == again
    assert len(first.queries) == 2
    with pytest.raises(InputError, match="no document gives a query"):
        from_headings(DOCUMENTS[2:3])


def test_agreement_of_systems_is_a_lower_grade():
    made = from_headings(DOCUMENTS)
    first = {query.id: ["c", "a", "b"] for query in made.queries}
    second = {query.id: ["a", "c", "d"] for query in made.queries}
    judged = pooled(made, {"bm25": first, "dense": second}, 2)
    by_text = {query.text: judged.qrels[query.id] for query in made.queries}
    assert by_text["Depth of the harbour"] == {"a": 2, "c": 1}
    assert by_text["Birds of the coast"] == {"a": 1, "b": 2, "c": 1}
    assert "judged by no person" in judged.made["judgements"]
    with pytest.raises(InputError, match="two systems"):
        pooled(made, {"bm25": first}, 2)


def test_the_folder_is_a_collection_that_is_marked(tmp_path):
    (tmp_path / "notes").mkdir()
    for document in DOCUMENTS[:2]:
        (tmp_path / "notes" / f"{document.id}.md").write_text(f"# {document.title or 'Tides'} at noon\n\nText here.\n")
    output = tmp_path / "made"
    command = ["eval", "synthetic", str(tmp_path / "notes"), "-o", str(output)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    collection = load_beir(output)
    assert collection.synthetic
    assert "no person judged them" in collection.warnings[0]
    assert len(collection.queries) == 2
    assert json.loads((output / "synthetic.json").read_text())["queries"] == "headings"
    assert isinstance(CliRunner().invoke(app, command).exception, InputError)  # nothing is overwritten
    measured = ["eval", "retrieval", str(output), "-s", "bm25", "--no-progress", "--json", str(tmp_path / "r.json")]
    measured += ["--markdown", str(tmp_path / "r.md"), "--report", str(tmp_path / "r.html")]
    done = CliRunner().invoke(app, measured)
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "r.json").read_text())["synthetic"]
    for text in (done.output, (tmp_path / "r.md").read_text(), (tmp_path / "r.html").read_text()):
        assert "synthetic" in text


@pytest.mark.usefixtures("smollm2")
def test_a_small_model_asks_about_a_document(tmp_path):
    text = "The lamp burned whale oil until it was electrified in 1911. Its keeper lived alone."
    made = asked_by_model([Document("lamp", text, "Lighthouse"), Document("empty", "")])
    assert made.qrels == {made.queries[0].id: {"lamp": 1}}
    assert made.queries[0].text.endswith("?")
    assert made.made["reader"] == "smollm2-135m"
    write_synthetic(tmp_path / "made", made)
    assert load_beir(tmp_path / "made").queries == made.queries
