"""One bad input, three doors: the library, the command and the service refuse it with the same code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from rag.api.app import create_app
from rag.cli.app import main
from rag.config import Settings
from rag.errors import RagError
from rag.pipeline import Pipeline

SETTINGS: dict[str, Any] = {
    "retriever": "bm25",
    "reranker": "icr",
    "compressor": None,
    "ordering": None,
    "limits": {"query_tokens": 60, "documents": 3, "document_characters": 3000, "read_tokens": 4000},
}
QUERY = "How deep is the harbour?"
GOOD = [{"id": "a", "text": "The harbour is deep."}, {"id": "b", "text": "Bread."}]
LONG = " ".join(f"Sentence {i} is about ropes." for i in range(40))

# Code (None: an answer), query, documents, top_n.
CASES: dict[str, tuple[str | None, str, list[Any], int | None]] = {
    "empty query": ("empty_query", " \n", GOOD, None),
    "query too long": ("query_too_long", "harbour " * 200, GOOD, None),
    "duplicate ids": ("duplicate_ids", QUERY, [GOOD[0], GOOD[0]], None),
    "text that is not a string": ("not_text", QUERY, [{"text": 5}], None),
    "title that is not a string": ("not_text", QUERY, [{"text": "x", "title": 5}], None),
    "id that is not a string": ("not_text", QUERY, [{"text": "x", "id": 1.5}], None),
    "missing text": ("not_text", QUERY, [{"id": "a"}], None),
    "top_n 0": ("invalid_input", QUERY, GOOD, 0),
    "too many documents": ("limit_exceeded", QUERY, [{"text": "x"}] * 4, None),
    "a document too large": ("limit_exceeded", QUERY, [{"text": "x" * 3001}], None),
    "more than can be read": ("limit_exceeded", QUERY, [{"text": "é" * 2500}, {"text": "ü" * 2500}], None),
    "empty corpus": (None, QUERY, [], None),
    "longer than the window": (None, QUERY, [{"id": "l", "text": LONG}], None),
    "nothing wrong": (None, QUERY, GOOD, 1),
}
WARNINGS = {"empty corpus": "the corpus is empty", "longer than the window": "longer than the model's window"}

Outcome = tuple[str | None, dict[str, Any] | str]


@pytest.fixture(scope="module")
def pipeline(engine) -> Pipeline:
    return Pipeline(Settings(**SETTINGS), engine=engine)


@pytest.fixture(scope="module")
def client(pipeline) -> Iterator[TestClient]:
    with TestClient(create_app(pipeline=pipeline), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def doors(pipeline, client, engine, tmp_path, monkeypatch, capsys) -> dict[str, Callable[..., Outcome]]:
    def library(query: str, documents: list[Any], top_n: int | None) -> Outcome:
        try:
            result = pipeline.run(query, documents, top_n=top_n)
        except RagError as error:
            return error.code, str(error)
        return None, {"warnings": result.warnings, "results": [item.id for item in result.results]}

    def command(query: str, documents: list[Any], top_n: int | None) -> Outcome:
        file, config = tmp_path / "corpus.jsonl", tmp_path / "rag.yaml"
        file.write_text("".join(json.dumps(entry) + "\n" for entry in documents))
        config.write_text(json.dumps(SETTINGS))
        arguments = ["rag", "context", query, str(file), "--json", "-c", str(config)]
        arguments += [] if top_n is None else ["--top-n", str(top_n)]
        # The model alone is not the one that the settings name: it need not be on this machine.
        monkeypatch.setattr("rag.resources.load_engine", lambda _: engine)
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        if left.value.code:
            assert (left.value.code, out, len(err.splitlines())) == (2, "", 1)
            return err.partition("[")[2].partition("]")[0], err
        result = json.loads(out)
        return None, {"warnings": result["warnings"], "results": [item["id"] for item in result["results"]]}

    def service(query: str, documents: list[Any], top_n: int | None) -> Outcome:
        body = {"query": query, "documents": documents} | ({} if top_n is None else {"top_n": top_n})
        answer = client.post("/v1/context", json=body)
        if answer.status_code != 200:
            assert 400 <= answer.status_code < 500, answer.text
            error = answer.json()["error"]
            return error["code"], error["message"]
        result = answer.json()
        return None, {"warnings": result["warnings"], "results": [item["id"] for item in result["results"]]}

    return {"library": library, "command": command, "service": service}


@pytest.mark.parametrize("door", ["library", "command", "service"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_input_gives_the_same_code_at_every_door(doors, door, case):
    code, query, documents, top_n = CASES[case]
    got, detail = doors[door](query, documents, top_n)
    assert got == code, detail
    if code is None:
        assert isinstance(detail, dict)
        assert [WARNINGS[case]] if case in WARNINGS else [] == [
            next((part for part in WARNINGS.values() if part in note), note) for note in detail["warnings"]
        ]
        assert len(detail["results"]) == (len(documents) if top_n is None else top_n)
