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
from rag.config import Settings, read_budget
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

# Code (None: an answer), query, documents, and what the call says beside them.
CASES: dict[str, tuple[str | None, str, list[Any], dict[str, Any]]] = {
    "empty query": ("empty_query", " \n", GOOD, {}),
    "query too long": ("query_too_long", "harbour " * 200, GOOD, {}),
    "duplicate ids": ("duplicate_ids", QUERY, [GOOD[0], GOOD[0]], {}),
    "text that is not a string": ("not_text", QUERY, [{"text": 5}], {}),
    "title that is not a string": ("not_text", QUERY, [{"text": "x", "title": 5}], {}),
    "id that is not a string": ("not_text", QUERY, [{"text": "x", "id": 1.5}], {}),
    "missing text": ("invalid_input", QUERY, [{"id": "a"}], {}),
    "top_n 0": ("invalid_input", QUERY, GOOD, {"top_n": 0}),
    "retrieve_k below 0": ("invalid_input", QUERY, GOOD, {"retrieve_k": -1}),
    "budget 0": ("impossible_budget", QUERY, GOOD, {"budget": "0"}),
    "budget above all": ("impossible_budget", QUERY, GOOD, {"budget": "101%"}),
    "budget in words": ("invalid_input", QUERY, GOOD, {"budget": "much"}),
    "budget not applied": (None, QUERY, GOOD, {"budget": "50%"}),
    "too many documents": ("limit_exceeded", QUERY, [{"text": "x"}] * 4, {}),
    "a document too large": ("limit_exceeded", QUERY, [{"text": "x" * 3001}], {}),
    "more than can be read": ("limit_exceeded", QUERY, [{"text": "é" * 2500}, {"text": "ü" * 2500}], {}),
    "empty corpus": (None, QUERY, [], {}),
    "longer than the window": (None, QUERY, [{"id": "l", "text": LONG}], {}),
    "nothing wrong": (None, QUERY, GOOD, {"top_n": 1}),
}
WARNINGS = {
    "empty corpus": "the corpus is empty",
    "longer than the window": "longer than the model's window",
    "budget not applied": "no compressor: the budget of 50% is not applied",
}

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
    def library(query: str, documents: list[Any], options: dict[str, Any]) -> Outcome:
        try:
            bound = {"budget": read_budget(options["budget"])} if "budget" in options else {}
            result = pipeline.run(query, documents, **{**options, **bound})
        except RagError as error:
            return error.code, str(error)
        return None, {"warnings": result.warnings, "results": [item.id for item in result.results]}

    def command(query: str, documents: list[Any], options: dict[str, Any]) -> Outcome:
        file, config = tmp_path / "corpus.jsonl", tmp_path / "rag.yaml"
        file.write_text("".join(json.dumps(entry) + "\n" for entry in documents))
        config.write_text(json.dumps(SETTINGS))
        arguments = ["rag", "context", query, str(file), "--json", "-c", str(config)]
        arguments += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
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

    def service(query: str, documents: list[Any], options: dict[str, Any]) -> Outcome:
        body = {"query": query, "documents": documents, **options}
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
    code, query, documents, options = CASES[case]
    got, detail = doors[door](query, documents, options)
    assert got == code, detail
    if code is None:
        assert isinstance(detail, dict)
        assert len(detail["results"]) == options.get("top_n", len(documents))
        wanted = [WARNINGS[case]] if case in WARNINGS else []
        assert len(detail["warnings"]) == len(wanted)
        assert all(part in note for part, note in zip(wanted, detail["warnings"], strict=True))
