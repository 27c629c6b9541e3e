"""Stored corpora: made, changed, searched, bounded, kept in a folder, and only for those who may."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from rag.api.app import create_app
from rag.api.corpora_files import as_line, check_name
from rag.api.errors import ApiError
from rag.api.keys import new_key
from rag.config import Settings
from rag.corpus import read_documents
from rag.errors import ConfigError
from rag.pipeline import Pipeline
from rag.types import Document

QUESTION = "How deep is the harbour?"


@pytest.fixture
def stored(client: TestClient, harbour: list[Any]) -> Any:
    """The corpus "port" in the shared service, gone again after the test."""
    assert client.put("/v1/corpora/port", json={"documents": harbour}).status_code == 201
    yield client
    client.delete("/v1/corpora/port")


def test_a_search_is_a_context_over_the_same_documents(stored: TestClient, harbour: list[Any]) -> None:
    options = {"query": QUESTION, "top_n": 2, "budget": 20, "return_sentences": False}
    found = stored.post("/v1/corpora/port/search", json=options).json()
    given_ = stored.post("/v1/context", json={**options, "documents": harbour}).json()
    assert found["context"] == given_["context"]
    for part in ("results", "dropped"):
        assert [item["id"] for item in found[part]] == [item["id"] for item in given_[part]]
    for item, expected in zip(found["results"], given_["results"], strict=True):
        assert all(item[name] == expected[name] for name in ("index", "spans", "metadata"))
        assert item["score"] == pytest.approx(expected["score"], abs=1e-4)
    again = stored.post("/v1/corpora/port/search", json=options).json()
    assert again["usage"]["encoded_tokens"] == 0
    assert again["usage"]["cached_blocks"] >= 3


def test_a_search_tells_its_stages(stored: TestClient) -> None:
    reply = stored.post(
        "/v1/corpora/port/search", json={"query": QUESTION}, headers={"Accept": "text/event-stream"}
    ).text
    events = [line.removeprefix("event: ") for line in reply.splitlines() if line.startswith("event: ")]
    assert events == ["stage", "stage", "stage", "stage", "result"]


def test_documents_that_were_never_retrieved_are_not_listed(stored: TestClient) -> None:
    found = stored.post("/v1/corpora/port/search", json={"query": QUESTION, "top_n": 1, "retrieve_k": 2}).json()
    assert [item["reason"] for item in found["dropped"]] == ["below_top_n"]
    assert found["stages"][0]["documents_in"] == 3


def test_add_replace_and_delete(stored: TestClient) -> None:
    added = stored.post(
        "/v1/corpora/port/documents",
        json={"documents": [{"id": "tide", "text": "The tide is nine metres."}, {"id": "bread", "text": "No bread."}]},
    ).json()
    assert (added["documents"], added["added"], added["replaced"]) == (5, 1, 1)
    assert stored.get("/v1/corpora/port").json()["ids"] == ["depth", "empty", "boats", "bread", "tide"]
    best = stored.post("/v1/corpora/port/search", json={"query": "How high is the tide?", "top_n": 1}).json()
    assert best["results"][0]["id"] == "tide"
    gone = stored.request("DELETE", "/v1/corpora/port/documents", json={"ids": ["tide", "nope"]}).json()
    assert (gone["documents"], gone["deleted"], gone["unknown"]) == (4, 1, ["nope"])
    after = stored.post("/v1/corpora/port/search", json={"query": "How high is the tide?", "top_n": 9}).json()
    assert "tide" not in [item["id"] for item in after["results"]]
    replaced = stored.put("/v1/corpora/port", json={"documents": []})
    assert (replaced.status_code, replaced.json()["documents"]) == (200, 0)
    nothing = stored.post("/v1/corpora/port/search", json={"query": "a"}).json()
    assert (nothing["results"], nothing["warnings"]) == ([], ["the corpus is empty"])
    assert stored.get("/v1/corpora").json()["corpora"] == [{"name": "port", "documents": 0, "bytes": 0}]
    assert stored.delete("/v1/corpora/port").json()["name"] == "port"
    assert stored.get("/v1/corpora").json() == {"corpora": []}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "says"),
    [
        ("GET", "/v1/corpora/none", None, 404, "no_corpus", "PUT /v1/corpora/none makes it"),
        ("DELETE", "/v1/corpora/none", None, 404, "no_corpus", "no corpus 'none'"),
        ("POST", "/v1/corpora/none/search", {"query": "a"}, 404, "no_corpus", "no corpus"),
        ("POST", "/v1/corpora/none/documents", {"documents": []}, 404, "no_corpus", "no corpus"),
        ("GET", "/v1/corpora/..%2Fetc", None, 404, "not_found", "nothing at"),
        ("GET", "/v1/corpora/%2E%2E", None, 422, "invalid_input", "accepted: 1 to 64"),
        ("PUT", "/v1/corpora/Port", {"documents": []}, 422, "invalid_input", "'Port'"),
        ("PUT", "/v1/corpora/port", {"documents": ["a"]}, 422, "invalid_input", "documents[0].id: is required"),
        ("PUT", "/v1/corpora/port", {}, 422, "invalid_input", "documents: is required"),
        ("PUT", "/v1/corpora/port", {"documents": [{"id": "a", "text": ""}] * 2}, 422, "duplicate_ids", "'a'"),
        ("PUT", "/v1/corpora/port", {"documents": [{"id": "a", "text": "b" * 20_001}]}, 422, "limit_exceeded", "20001"),
        ("POST", "/v1/corpora/port/search", {"query": " "}, 400, "empty_query", "query is empty"),
        ("POST", "/v1/corpora/port/search", {"query": "a", "documents": []}, 422, "invalid_input", "documents: is not"),
        ("PATCH", "/v1/corpora/port", {}, 405, "method_not_allowed", "PATCH"),
    ],
)
def test_errors(stored: TestClient, method: str, path: str, body: Any, status: int, code: str, says: str) -> None:
    error = (reply := stored.request(method, path, json=body)).json()["error"]
    assert (reply.status_code, error["code"]) == (status, code)
    assert says in error["message"]


def app_of(pipeline: Pipeline, **server: Any) -> TestClient:
    settings = Settings(retriever="bm25", reranker=None, compressor=None, ordering=None, server=server)
    return TestClient(create_app(pipeline=Pipeline(settings, engine=pipeline.engine)))


def put(client: TestClient, name: str, *texts: str, **options: Any) -> Any:
    documents = [{"id": str(i), "text": text} for i, text in enumerate(texts)]
    return client.put(f"/v1/corpora/{name}", json={"documents": documents}, **options)


def test_bounds(client: TestClient, pipeline: Pipeline) -> None:
    assert client
    small = app_of(pipeline, corpora={"count": 2, "documents": 3, "bytes": 200})
    assert put(small, "a", "x", "y").status_code == 201
    assert put(small, "b").status_code == 201
    for refused, says in (
        (put(small, "c"), "stores 2 corpora; accepted: up to 2 (server.corpora.count)"),
        (put(small, "b", *"abcd"), "4 documents; accepted: up to 3 (server.corpora.documents)"),
        (put(small, "b", "a" * 300), "accepted: up to 200 (server.corpora.bytes)"),
        (
            small.post("/v1/corpora/a/documents", json={"documents": [{"id": i, "text": ""} for i in (7, 8)]}),
            "would hold 4 documents",
        ),
    ):
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "limit_exceeded")
        assert says in refused.json()["error"]["message"]
    assert small.get("/v1/corpora/a").json()["ids"] == ["0", "1"]
    assert small.get("/v1/corpora/b").json()["ids"] == []
    several = app_of(pipeline, workers=2)
    assert (several.get("/v1/corpora").status_code, put(several, "a").status_code) == (501, 501)


def test_a_folder_outlives_the_service(client: TestClient, pipeline: Pipeline, tmp_path: Path) -> None:
    assert client
    folder = tmp_path / "corpora"
    first = app_of(pipeline, corpora={"folder": str(folder)})
    put(first, "port", "The harbour is deep.\u2028Really", "Boats\nare blue.")
    put(first, "gone", "a")
    first.delete("/v1/corpora/gone")
    assert sorted(path.name for path in folder.iterdir()) == ["port.jsonl"]
    (folder / "Not a corpus.jsonl").write_text("no JSON")
    second = app_of(pipeline, corpora={"folder": str(folder)})
    assert second.get("/v1/corpora").json() == first.get("/v1/corpora").json()
    with second:
        found = second.post("/v1/corpora/port/search", json={"query": "harbour", "top_n": 1}).json()
    assert found["results"][0]["text"] == "The harbour is deep.\u2028Really"
    second.request("DELETE", "/v1/corpora/port/documents", json={"ids": ["0"]})
    assert [json.loads(line)["id"] for line in (folder / "port.jsonl").read_text().splitlines()] == ["1"]
    with pytest.raises(ConfigError, match="accepted: up to 5"):
        app_of(pipeline, corpora={"folder": str(folder), "bytes": 5})
    (folder / "bad.jsonl").write_text("{")
    with pytest.raises(ConfigError, match=r"bad\.jsonl:1: not JSON"):
        app_of(pipeline, corpora={"folder": str(folder)})


def test_keys_for_reading_writing_and_single_corpora(client: TestClient, pipeline: Pipeline) -> None:
    assert client
    (reader, reads), (writer, writes) = new_key(), new_key()
    secured = app_of(
        pipeline,
        keys=[
            {"name": "reader", "sha256": reads, "scopes": ["corpora:read"], "corpora": ["a"]},
            {"name": "writer", "sha256": writes, "scopes": ["corpora:read", "corpora:write"]},
        ],
    )
    read, write = ({"Authorization": f"Bearer {key}"} for key in (reader, writer))
    assert put(secured, "a", "x", headers=read).status_code == 403
    assert put(secured, "a", "x", headers=write).status_code == 201
    assert put(secured, "b", "x", headers=write).status_code == 201
    assert secured.get("/v1/corpora/a", headers=read).status_code == 200
    assert secured.get("/v1/corpora/b", headers=read).status_code == 403
    assert secured.post("/v1/corpora/b/search", json={"query": "a"}, headers=read).status_code == 403
    assert secured.delete("/v1/corpora/a", headers=read).status_code == 403
    assert [item["name"] for item in secured.get("/v1/corpora", headers=read).json()["corpora"]] == ["a"]
    assert secured.get("/v1/corpora").status_code == 401


_text = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.builds(Document, _text, _text, _text, st.dictionaries(_text, st.integers() | _text | st.none(), max_size=3)))
def test_a_line_reads_back_as_the_document(tmp_path_factory: pytest.TempPathFactory, document: Document) -> None:
    path = tmp_path_factory.getbasetemp() / "one.jsonl"
    path.write_text(as_line(document) + "\n", encoding="utf-8", newline="")
    assert read_documents([path]) == [document]


@given(st.text(max_size=70))
def test_no_name_leaves_its_folder(name: str) -> None:
    with suppress(ApiError):
        check_name(name)
        assert Path("/a", f"{name}.jsonl").resolve() == Path(f"/a/{name}.jsonl")
        assert name.isascii()
        assert name == name.lower()
