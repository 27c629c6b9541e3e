from __future__ import annotations

import gzip
import json

import pytest

from rag.errors import ConfigError, InputError
from rag.eval.collection_files import load_collection, load_files, retrieves_itself
from rag.eval.ir_datasets_source import from_dataset
from rag.types import Document, Query

JSONL = '{"_id": 1, "title": "Tides", "text": "High water at noon."}\n{"_id": "b", "text": "A lamp, lit."}\n'
CSV = 'id,title,text\n1,Tides,High water at noon.\nb,,"A lamp, lit."\n'
TSV = "_id\ttitle\ttext\n1\tTides\tHigh water at noon.\nb\t\tA lamp, lit.\n"
TOPICS = "<top>\n<num> Number: 7\n<title> lamp\n oil \n<desc> Description:\nWhat?\n</top>\n<top><num>q<title>tide</top>"


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


@pytest.mark.parametrize(("name", "text"), [("c.jsonl", JSONL), ("c.csv", CSV), ("c.tsv", TSV), ("c.csv.gz", CSV)])
@pytest.mark.parametrize(
    ("asked", "questions"),
    [
        ("q.jsonl", '{"_id": 7, "text": "lamp oil"}\n{"_id": "q", "text": "tide"}\n'),
        ("q.json", '{"7": "lamp oil", "q": "tide"}'),
        ("q.csv", "id,text\n7,lamp oil\nq,tide\n"),
        ("q.tsv", "7\tlamp oil\nq\ttide\n"),
        ("q.tsv.gz", "id\ttext\n7\tlamp oil\nq\ttide\n"),
        ("q.txt", TOPICS),
    ],
)
def test_every_form_of_documents_and_queries_reads_the_same(write, name, text, asked, questions):
    judged = write("judged.qrels", "7 0 b 2\nq 0 1 1\nq 0 gone 1\n")
    collection = load_files(write(name, text), write(asked, questions), judged)
    assert collection.name == "c"
    assert collection.documents == (Document("1", "High water at noon.", "Tides"), Document("b", "A lamp, lit."))
    assert collection.queries == (Query("lamp oil", "7"), Query("tide", "q"))
    assert collection.qrels == {"7": {"b": 2}, "q": {"1": 1, "gone": 1}}
    assert collection.missing_documents == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("j.qrels", "7 0 b 2\n"),
        ("j.tsv", "query-id\tcorpus-id\tscore\n7\tb\t2\n"),
        ("j.json", '{"7": {"b": 2}}'),
        ("j.json.gz", '{"7": {"b": 2}}'),
    ],
)
def test_every_form_of_judgements_reads_the_same(write, name, text):
    collection = load_files(write("c.jsonl", JSONL), write("q.tsv", "7\tlamp\n"), write(name, text))
    assert collection.qrels == {"7": {"b": 2}}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.csv", "id,title,text\n1,x\n", "c.csv, line 2: expected 3 fields"),
        ("c.csv", "name,text\n", "c.csv, line 1: expected a header line with id, text, given name, text"),
        ("c.csv", 'id,text\n1,"open\n', "c.csv, line 2: unexpected end of data"),
        ("c.docx", "x", "a corpus is .jsonl, .csv or .tsv"),
        ("c.jsonl.gz", JSONL + "[]\n", "c.jsonl.gz, line 3: expected a JSON object"),
        ("q.tsv", "7\tlamp\nq\n", "q.tsv, line 2: expected id, tab, text"),
        ("q.json", '{"7": 5}', "q.json, query '7': query must be a string"),
        ("q.json", "[", "q.json is not JSON"),
        ("q.txt", "<top>\n<num> 7\n</top>", "q.txt, line 1: a topic needs <num> and <title>"),
        ("q.txt", "hello", "queries are .jsonl"),
        ("j.qrels", "7 0 b\n", "j.qrels, line 1: expected 4 fields"),
        ("j.json", '{"7": {"b": "2"}}', "j.json, query '7': grade must be a whole number, given '2'"),
    ],
)
def test_what_is_malformed_is_named(write, name, text, message):
    files = {"c": write("c.jsonl", JSONL), "q": write("q.tsv", "7\tlamp\n"), "j": write("j.qrels", "7 0 b 1\n")}
    files[name[0]] = write(name, text)
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        load_files(*files.values())


def test_bytes_that_are_no_text_are_named(tmp_path, write):
    (tmp_path / "c.jsonl").write_bytes(b'{"_id": "1", "text": "\xff"}\n')
    with pytest.raises(InputError, match=r"c.jsonl is not UTF-8"):
        load_files(tmp_path / "c.jsonl", write("q.tsv", "7\tlamp\n"), write("j.qrels", "7 0 b 1\n"))
    (tmp_path / "q.tsv.gz").write_bytes(gzip.compress(b"7\tlamp\n" * 2000)[:30])
    with pytest.raises(InputError, match=r"q.tsv.gz is not a whole gzip file"):
        load_files(write("c.jsonl", JSONL), tmp_path / "q.tsv.gz", write("j.qrels", "7 0 b 1\n"))


def test_a_collection_is_a_folder_a_name_or_three_files(tmp_path):
    with pytest.raises(InputError, match="given corpus, qrels; accepted: a BEIR folder or zip, ir_datasets:NAME"):
        load_collection(corpus="c.jsonl", qrels="q")
    with pytest.raises(InputError, match="accepted: one of them"):
        load_collection(str(tmp_path), corpus="c.jsonl")
    with pytest.raises(InputError, match="brings its own"):
        load_collection("ir_datasets:beir/scifact/test", qrels="q")


def test_qrels_inside_a_folder_may_be_in_the_trec_form(tmp_path, write):
    write("corpus.jsonl", JSONL)
    write("queries.jsonl", '{"_id": 7, "text": "lamp"}\n')
    write("own.qrels", "7 0 b 2\n")
    assert load_collection(str(tmp_path), qrels="own.qrels").qrels == {"7": {"b": 2}}


def test_collections_that_find_themselves_are_known_by_name():
    assert retrieves_itself("ArguAna")
    assert retrieves_itself("beir/quora/test")
    assert not retrieves_itself("scifact")


class TestIrDatasets:
    """Through ir_datasets' own classes, over files made here: nothing is downloaded."""

    @pytest.fixture
    def dataset(self, tmp_path):
        ir_datasets = pytest.importorskip("ir_datasets")
        from ir_datasets.datasets.base import Dataset
        from ir_datasets.formats import TrecQrels, TsvDocs, TsvQueries
        from ir_datasets.util import LocalDownload

        (tmp_path / "docs.tsv").write_text("1\tHigh water at noon.\nb\tA lamp, lit.\n")
        (tmp_path / "queries.tsv").write_text("7\tlamp\nq\ttide\n")
        (tmp_path / "qrels").write_text("7 0 b 2\nq 0 1 1\n")
        docs = TsvDocs(LocalDownload(tmp_path / "docs.tsv"), namespace="own")
        queries = TsvQueries(LocalDownload(tmp_path / "queries.tsv"), namespace="own")
        qrels = TrecQrels(LocalDownload(tmp_path / "qrels"), {2: "very", 1: "some"})
        ir_datasets.registry.register("own-tides/dev", Dataset(docs, queries, qrels))
        ir_datasets.registry.register("own-tides", Dataset(docs))
        yield ir_datasets.load("own-tides/dev")
        for name in ("own-tides/dev", "own-tides"):
            ir_datasets.registry._registered.pop(name)

    def test_by_name(self, dataset):
        collection = load_collection("ir_datasets:own-tides/dev")
        assert collection == from_dataset(dataset, "own-tides/dev")
        assert collection.documents == (Document("1", "High water at noon."), Document("b", "A lamp, lit."))
        assert collection.queries == (Query("lamp", "7"), Query("tide", "q"))
        assert collection.qrels == {"7": {"b": 2}, "q": {"1": 1}}

    @pytest.mark.usefixtures("dataset")
    def test_a_name_must_be_known_and_have_everything(self):
        with pytest.raises(InputError, match="'own-tides' of ir_datasets has no queries, no qrels"):
            load_collection("ir_datasets:own-tides")
        with pytest.raises(InputError, match="knows no collection 'nothing/of/it'"):
            load_collection("ir_datasets:nothing/of/it")

    def test_without_the_package_the_extra_is_named(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "ir_datasets", None)
        with pytest.raises(ConfigError, match=r"rag-context\[datasets\]"):
            load_collection("ir_datasets:beir/scifact/test")


def test_runs_and_judgements_as_json(tmp_path):
    from rag.eval.runs import read_qrels, read_run, write_qrels, write_run

    run = {"q": [("b", 2.0), ("a", 1.0)]}
    for name in ("r.json", "r.json.gz", "r.run"):
        write_run(tmp_path / name, run)
        assert read_run(tmp_path / name) == run
    write_qrels(tmp_path / "j.json", {"q": {"a": 1}})
    assert read_qrels(tmp_path / "j.json") == {"q": {"a": 1}}
    assert json.loads((tmp_path / "r.json").read_text()) == {"q": {"b": 2.0, "a": 1.0}}
    (tmp_path / "bad.json").write_text('{"q": {"a": true}}')
    with pytest.raises(InputError, match="score must be a number, given True"):
        read_run(tmp_path / "bad.json")
