from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.corpus import as_documents, read_documents
from rag.errors import DuplicateIdsError, InputError, NotTextError
from rag.types import Document


def test_strings_mappings_and_documents_become_documents():
    given_corpus = [
        "first",
        {"text": "second", "title": "T", "url": "u"},
        Document("x", "third"),
        {"_id": 7, "text": ""},
    ]
    assert as_documents(given_corpus) == [
        Document("0", "first"),
        Document("1", "second", "T", {"url": "u"}),
        Document("x", "third"),
        Document("7", "", "", {}),
    ]


@pytest.mark.parametrize(
    ("corpus", "error", "parts"),
    [
        (["a", 3], NotTextError, ["index 1", "int"]),
        (["a", None], NotTextError, ["index 1", "NoneType"]),
        ([{"text": 5}], NotTextError, ["index 0", "'text'", "int"]),
        ([{"title": "x"}], InputError, ["index 0", "'text'", "missing"]),
        ([{"text": "x", "title": 1}], NotTextError, ["index 0", "'title'", "int"]),
        ([{"text": "x", "id": True}], NotTextError, ["index 0", "'id'", "bool"]),
        ([{"text": "x", "id": "a", "_id": "b"}], InputError, ["index 0", "one of them"]),
        ([{"text": "x", "metadata": []}], InputError, ["index 0", "metadata", "list"]),
        (["ok", "bad \ud800"], NotTextError, ["'text'", "index 1", "surrogate", "character 4"]),
        ([{"id": "bad \ud800", "text": ""}], NotTextError, ["'id'", "index 0", "surrogate"]),
        ([{"title": "\udfff", "text": ""}], NotTextError, ["'title'", "index 0", "surrogate"]),
        ([Document("a", "ok", "\udfff")], NotTextError, ["'title'", "index 0", "surrogate"]),
        ([{"text": 5 * [10**6]}], NotTextError, ["'text'", "list"]),
        ("one text", InputError, ["str", "put a single text in a list"]),
        (b"bytes", InputError, ["bytes"]),
        ({"text": "x"}, InputError, ["dict"]),
        (5, InputError, ["int"]),
        (["a", {"id": "0", "text": "b"}], DuplicateIdsError, ["'0'"]),
    ],
)
def test_a_bad_corpus_is_one_error(corpus, error, parts):
    with pytest.raises(error) as caught:
        as_documents(corpus)
    assert [part for part in parts if part not in str(caught.value)] == []


def test_files_and_folders(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '\ufeff{"_id": "j1", "text": "one\u2028two", "title": null, "lang": "en"}\n\n{"text": "no id"}\r\n', "utf-8"
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.md").write_text("intro\n```\n# code\n```\n## The *title* ##\nbody")
    (tmp_path / "sub" / "c.TXT").write_bytes(b"line one\r\nline two")
    (tmp_path / "sub" / "image.png").write_bytes(b"\x89PNG")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "d.txt").write_text("not read")

    a, b, c, d = read_documents([tmp_path])

    root = tmp_path.as_posix()
    assert a == Document("j1", "one\u2028two", "", {"lang": "en"})
    assert b == Document(f"{root}/a.jsonl:3", "no id", "", {})
    assert (c.id, c.title) == (f"{root}/sub/b.md", "The *title*")
    assert c.text.startswith("intro\n```")
    assert d == Document(f"{root}/sub/c.TXT", "line one\r\nline two")


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("x.pdf", b"", ["x.pdf", ".jsonl, .txt, .md, .markdown"]),
        ("missing.txt", None, ["missing.txt", "No such file"]),
        ("x.txt", b"caf\xe9", ["x.txt", "UTF-8", "byte 3"]),
        ("x.jsonl", b'{"text": "ok"}\nnope\n', ["x.jsonl:2", "not JSON"]),
        ("x.jsonl", b"[" * 100_000, ["x.jsonl:1", "not JSON"]),
        ("x.jsonl", b'["a"]', ["x.jsonl:1", "JSON object", "list"]),
        ("x.jsonl", b'{"txt": "a"}', ["x.jsonl:1", "'text'", "missing"]),
        ("x.jsonl", b'{"text": "a"}\n{"text": "b", "metadata": {"n": NaN}}', ["x.jsonl:2", "not JSON", "NaN"]),
        ("x.jsonl", b'{"text": "a", "n": [-Infinity]}', ["x.jsonl:1", "not JSON", "-Infinity"]),
        ("x.jsonl", b'{"text": "a", "n": 1e999}', ["x.jsonl:1", "not JSON", "1e999"]),
        ("x.jsonl", b'{"text": "a \\ud800"}', ["x.jsonl:1", "'text'", "surrogate", "character 2"]),
        ("x.jsonl", b'{"text": "a", "title": "\\udc00"}', ["x.jsonl:1", "'title'", "surrogate"]),
        ("x.jsonl", b'{"text": "a", "_id": "\\udc00"}', ["x.jsonl:1", "'id'", "surrogate"]),
        ("x.jsonl", b'{"text": "a", "url": ["\\uDC00"]}', ["x.jsonl:1", "'metadata'", "surrogate"]),
    ],
)
def test_a_bad_file_is_one_error_naming_it(tmp_path, name, content, parts):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_documents([path])
    assert [part for part in parts if part not in str(caught.value)] == []


def test_escaped_pairs_and_finite_numbers_are_read(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"text": "\\ud83d\\ude00", "n": 1.5, "m": -1e-400}')
    (document,) = read_documents([path])
    assert (document.text, document.metadata) == ("\U0001f600", {"n": 1.5, "m": 0.0})


def test_a_file_name_that_is_not_unicode_is_refused(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt"))
    path.write_text("x")
    with pytest.raises(NotTextError, match=r"name of the file .*surrogate"):
        read_documents([path])


def test_a_folder_without_documents_is_an_error(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(InputError, match="no file of an accepted kind"):
        read_documents([tmp_path])


def test_naming_a_file_twice_is_an_error(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("x")
    with pytest.raises(DuplicateIdsError, match=r"a\.txt"):
        read_documents([path, path])


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'{"text": "a"}\n{"id": "k", "text": "b"}')))
    assert [(d.id, d.text) for d in read_documents(["-"])] == [("stdin:1", "a"), ("k", "b")]


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.booleans()), max_size=8))
def test_json_lines_give_back_every_text(tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("lines") / "c.jsonl"
    lines = [json.dumps({"text": text}, ensure_ascii=escaped) for text, escaped in entries]
    path.write_bytes("\n".join(lines).encode())
    assert [document.text for document in read_documents([path])] == [text for text, _ in entries]
