from __future__ import annotations

import gzip
import json
import zipfile

import pytest

from rag.errors import DuplicateIdsError, InputError
from rag.eval.collections import SupportingSentence, load_beir, load_qa
from rag.types import Document, Query

CORPUS = (
    '{"_id": "d1", "title": "Tides", "text": "High water at noon.", "metadata": {"year": 1999}}\n'
    '{"_id": 2, "text": "A lamp."}\n'
    "\n"
    '{"_id": "empty", "title": null, "text": ""}\n'
)
QUERIES = (
    '{"_id": "q1", "text": "when is high water"}\n{"_id": 7, "text": "lamp"}\n{"_id": "train", "text": "unjudged"}\n'
)
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\tgone\t1\n7\t2\t1\nlost\td1\t1\n"


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "tides"
    (root / "qrels").mkdir(parents=True)
    (root / "corpus.jsonl").write_text(CORPUS)
    (root / "queries.jsonl").write_text(QUERIES)
    (root / "qrels" / "test.tsv").write_text(QRELS)
    return root


def test_reads_a_folder_and_counts_what_does_not_fit_together(folder):
    collection = load_beir(folder)
    assert collection.name == "tides"
    assert collection.documents == (
        Document("d1", "High water at noon.", "Tides", {"year": 1999}),
        Document("2", "A lamp."),
        Document("empty", ""),
    )
    assert collection.queries == (Query("when is high water", "q1"), Query("lamp", "7"))
    assert collection.qrels == {"q1": {"d1": 2, "gone": 1}, "7": {"2": 1}}
    assert (collection.missing_documents, collection.missing_queries, collection.unjudged_queries) == (1, 1, 1)
    assert len(collection.warnings) == 2
    assert collection.warnings[0].startswith("tides: 1 judged document")


def test_gzip_and_zip_read_the_same(folder, tmp_path):
    plain = load_beir(folder)
    archive = tmp_path / "tides.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in folder.rglob("*.*"):
            file.write(path, path.relative_to(tmp_path))
    assert load_beir(archive) == plain
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress((folder / "corpus.jsonl").read_bytes()))
    (folder / "corpus.jsonl").unlink()
    assert load_beir(folder) == plain


def test_other_queries_and_judgements_without_a_header(folder):
    (folder / "queries_train.jsonl").write_text('{"_id": "train", "text": "unjudged"}\n')
    (folder / "qrels" / "own.tsv").write_text("train\td1\t1\n")
    collection = load_beir(folder, queries="queries_train.jsonl", qrels="qrels/own.tsv")
    assert collection.qrels == {"train": {"d1": 1}}
    assert collection.queries == (Query("unjudged", "train"),)
    assert collection.warnings == ()


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("corpus.jsonl", "{not json}", "corpus.jsonl, line 5: Expecting"),
        ("corpus.jsonl", "[1]", "line 5: expected a JSON object, given list"),
        ("corpus.jsonl", '{"_id": "x"}', "line 5: missing key 'text'"),
        ("corpus.jsonl", '{"_id": "x", "text": 5}', "line 5: text of document 'x' must be a string, got int"),
        ("corpus.jsonl", '{"_id": null, "text": "t"}', "line 5: _id must be a string or a whole number, given None"),
        ("corpus.jsonl", '{"_id": "x", "text": "t", "metadata": 3}', "line 5: metadata must be an object"),
        ("queries.jsonl", '{"_id": "x", "text": " "}', "queries.jsonl, line 4: query is empty"),
        ("queries.jsonl", '{"_id": "7", "text": "again"}', "two queries carry the same id"),
        ("qrels/test.tsv", "q1 d1 1", "test.tsv, line 6: expected 3 tab separated fields"),
        ("qrels/test.tsv", "q1\td2\thigh", "line 6: grade must be a whole number, given 'high'"),
    ],
)
def test_malformed_lines_name_file_and_line(folder, file, line, message):
    with (folder / file).open("a") as opened:
        opened.write(line + "\n")
    with pytest.raises(InputError, match=message):
        load_beir(folder)


def test_duplicate_documents(folder):
    (folder / "corpus.jsonl").write_text(CORPUS + '{"_id": "2", "text": "again"}\n')
    with pytest.raises(DuplicateIdsError, match="'2'"):
        load_beir(folder)


def test_missing_files(folder, tmp_path):
    with pytest.raises(InputError, match=r"neither qrels/dev\.tsv nor qrels/dev\.tsv\.gz"):
        load_beir(folder, split="dev")
    with pytest.raises(InputError, match="expected a folder or a zip"):
        load_beir(tmp_path / "nowhere")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        file.writestr("readme.txt", "nothing")
    with pytest.raises(InputError, match=r"no corpus\.jsonl"):
        load_beir(tmp_path / "other.zip")
    with pytest.raises(InputError, match="no such file"):
        load_qa(tmp_path / "nowhere.jsonl")


QUESTION = {
    "_id": "a",
    "question": "when is high water?",
    "answers": ["noon", "12:00"],
    "documents": [
        {"_id": "a-0", "title": "Tides", "text": "High water at noon. Low at six.", "supporting": True},
        {"_id": "a-1", "title": "", "text": "A lamp.", "supporting": False},
    ],
    "supporting_sentences": [{"doc_id": "a-0", "sentence_id": 0, "text": "High water at noon."}],
    "type": "bridge",
}


def test_reads_questions(tmp_path):
    path = tmp_path / "qa.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps(QUESTION) + "\n").encode()))
    [question] = load_qa(path)
    assert question.query == Query("when is high water?", "a")
    assert question.answers == ("noon", "12:00")
    assert [document.id for document in question.documents] == ["a-0", "a-1"]
    assert question.supporting == {"a-0"}
    assert question.supporting_sentences == (SupportingSentence("a-0", "High water at noon."),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": "noon"}, "line 2: answers must be a list of strings, given 'noon'"),
        ({"documents": [{"_id": "x", "text": "1"}, {"_id": "x", "text": "2"}]}, "line 2: .*given more than once: 'x'"),
        ({"question": ""}, "line 2: query is empty"),
    ],
)
def test_malformed_questions(tmp_path, change, message):
    path = tmp_path / "qa.jsonl"
    path.write_text(json.dumps(QUESTION) + "\n" + json.dumps({**QUESTION, **change}) + "\n")
    with pytest.raises(InputError, match=message):
        load_qa(path)
