"""``/v1/embeddings``, ``/v1/models`` and ``/v1/compress``."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from rag.pipeline import Pipeline

TEXTS = ["The harbour is deep.", "sand " * 700 + "gulls nest on the wall"]


def embed(client: TestClient, **body: Any) -> Any:
    reply = client.post("/v1/embeddings", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_the_vectors_are_those_of_the_dense_model(client: TestClient, pipeline: Pipeline) -> None:
    answer = embed(client, input=TEXTS, model="text-embedding-3-small", user="u")
    assert [item["index"] for item in answer["data"]] == [0, 1]
    assert answer["model"] == "minilm"
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 700
    expected = pipeline.resources.embedder().encode(TEXTS)
    assert np.allclose([item["embedding"] for item in answer["data"]], expected, atol=1e-5)
    packed = embed(client, input=TEXTS[0], encoding_format="base64", dimensions=expected.shape[1])["data"]
    assert np.allclose(np.frombuffer(base64.b64decode(packed[0]["embedding"]), "<f4"), expected[0], atol=1e-5)


@pytest.mark.parametrize(
    ("body", "status", "param", "says"),
    [
        ({"input": []}, 400, "input", "at least 1"),
        ({"input": ["a", " "]}, 400, "input[1]", "input[1] is empty"),
        ({"input": [1, 2]}, 422, None, "must be a string"),
        ({"input": "a", "dimensions": 5}, 422, "dimensions", "dimensions is 5; accepted: 384"),
        ({"input": "a", "encoding_format": "int8"}, 422, "encoding_format", "'base64'"),
        ({"input": ["a"] * 13}, 422, None, "13 documents"),
        ({"input": "a", "task": "b"}, 422, "task", "is not a known field"),
    ],
)
def test_errors(client: TestClient, body: dict[str, Any], status: int, param: str | None, says: str) -> None:
    reply = client.post("/v1/embeddings", json=body)
    error = reply.json()["error"]
    assert (reply.status_code, error["type"]) == (status, "invalid_request_error")
    assert says in error["message"]
    assert param is None or error["param"] == param


def test_the_models_are_listed(client: TestClient) -> None:
    answer = client.get("/v1/models").json()
    assert [item["id"] for item in answer["data"]] == ["smollm2-135m", "minilm"]


def test_compress_keeps_every_document_in_its_place(client: TestClient, harbour: list[dict[str, Any]]) -> None:
    question = "How deep is the harbour?"
    fields = {"query": question, "documents": harbour, "budget": 16}
    answer = client.post("/v1/compress", json={**fields, "return_sentences": True}).json()
    assert [(item["id"], item["index"]) for item in answer["results"]] == [
        (document["id"], index) for index, document in enumerate(harbour)
    ]
    assert "fourteen metres deep" in answer["results"][0]["text"]
    assert answer["results"][1] == {
        "id": "empty",
        "index": 1,
        "text": "",
        "spans": [],
        "tokens_before": 0,
        "tokens_after": 0,
        "sentences": [],
    }
    assert answer["tokens_after"] == sum(item["tokens_after"] for item in answer["results"]) <= 16
    assert answer["tokens_before"] > 30
    context = client.post("/v1/context", json={**fields, "top_n": len(harbour)}).json()
    assert {item["id"]: item["spans"] for item in context["results"] if item["spans"]} == {
        item["id"]: item["spans"] for item in answer["results"] if item["spans"]
    }
    for item in answer["results"]:
        source = harbour[item["index"]]["text"]
        kept = [source[start:end] for start, end in item["spans"]]
        assert kept == [source[slice(*of["span"])] for of in item["sentences"] if of["kept"]]


def test_compress_of_nothing_and_without_a_compressor(client: TestClient, with_retriever: Any) -> None:
    from rag.api.app import create_app

    assert client.post("/v1/compress", json={"query": "a", "documents": []}).json()["results"] == []
    assert client.post("/v1/compress", json={"query": "", "documents": ["a"]}).status_code == 400
    other = TestClient(create_app(pipeline=with_retriever("test-gated")))
    refused = other.post("/v1/compress", json={"query": "a", "documents": ["b"]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (501, "not_offered")
