from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.errors import InputError
from rag.eval.slot_prompts import AskedDocuments, PromptSource, read_source
from rag.types import Document, Query

SOURCE = PromptSource(
    "made up",
    tuple(
        AskedDocuments(Query(f"Question {q}?"), tuple(Document(f"{q}-{i}", f"Text {q} {i}.") for i in range(3)))
        for q in range(4)
    ),
)


@given(st.integers(2, 12), st.integers(0, 200))
def test_a_prompt_holds_its_querys_documents_and_others_shuffled(count: int, number: int) -> None:
    drawn = SOURCE.draw(count, number)
    names = [document.id for document in drawn.documents]
    assert len(set(names)) == count
    own = [name for name in names if name.startswith(drawn.query.text[9])]
    assert len(own) == min(count, 3)
    assert drawn == SOURCE.draw(count, number)


def test_relevant_documents_come_to_every_slot() -> None:
    places = set()
    for number in range(60):
        drawn = SOURCE.draw(6, number)
        places |= {i for i, item in enumerate(drawn.documents) if item.id.startswith(drawn.query.text[9])}
    assert places == set(range(6))
    assert SOURCE.draw(6, 1) != SOURCE.draw(6, 1, seed=1)


def test_too_few_documents_are_an_error() -> None:
    with pytest.raises(InputError, match="made up: prompts of 13 documents, given 12"):
        SOURCE.draw(13, 0)


def test_questions_collections_and_plain_documents_are_read(tmp_path: Path) -> None:
    documents = [{"_id": "a", "title": "", "text": "One. Two. Three."}, {"_id": "b", "text": " "}]
    qa = tmp_path / "qa.jsonl"
    qa.write_text(json.dumps({"_id": "1", "question": "What?", "answers": ["One"], "documents": documents}))
    (found,) = read_source([qa], first_sentences=2).asked
    assert (found.query.text, [item.text for item in found.documents]) == ("What?", ["One. Two."])

    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    titled = [{"_id": "a", "title": "Title", "text": "One. Two."}, {"_id": "b", "title": "", "text": "Three. Four."}]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, titled)))
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "Which?"}))
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq\tb\t1\n")
    asked = read_source([folder]).asked
    assert [(item.query.text, item.documents[0].id) for item in asked] == [
        ("Which?", "b"),
        ("Title", "a"),
        ("Three.", "b"),
    ]

    plain = tmp_path / "notes.jsonl"
    plain.write_text(json.dumps({"id": "n", "text": "First here. Second."}))
    (item,) = read_source([plain]).asked
    assert item.query.text == "First here."
    empty = tmp_path / "empty.txt"
    empty.write_text(" ")
    with pytest.raises(InputError, match="no query has a document with text"):
        read_source([empty])
