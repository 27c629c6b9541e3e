"""``POST /v2/rerank``: by hand, and through Cohere's own client."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import cohere
import pytest
from serving import served
from starlette.testclient import TestClient

from rag.api.app import create_app
from rag.api.keys import new_key
from rag.config import Settings
from rag.pipeline import Pipeline

QUESTION = "How deep is the harbour?"
TEXTS = [
    "Boats are painted blue every spring.",
    "The harbour is fourteen metres deep.",
    "  ",
    "Bread is baked at dawn.",
]


def rank(client: TestClient, **fields: Any) -> Any:
    return client.post("/v2/rerank", json={"model": "smollm2-135m", "query": QUESTION, "documents": TEXTS, **fields})


def test_ranks_every_document_and_sends_none_back(client: TestClient) -> None:
    reply = rank(client)
    answer = reply.json()
    assert reply.status_code == 200
    assert answer["id"] == reply.headers["x-request-id"]
    assert all(set(item) == {"index", "relevance_score"} for item in answer["results"])
    assert answer["results"][0]["index"] == 1
    assert answer["results"][-1] == {"index": 2, "relevance_score": 0.0}
    assert {item["index"] for item in answer["results"]} == set(range(4))
    scores = [item["relevance_score"] for item in answer["results"]]
    assert all(1 >= above > below >= 0 for above, below in pairwise(scores))
    assert answer["meta"]["api_version"] == {"version": "2", "is_experimental": False}
    assert answer["meta"]["billed_units"] == {"search_units": 1}
    assert "warnings" not in answer["meta"]


@pytest.mark.parametrize(("given", "expected"), [(1, 1), (2, 2), (99, 4), (0, 4), (None, 4)])
def test_top_n(client: TestClient, given: int | None, expected: int) -> None:
    assert len(rank(client, top_n=given).json()["results"]) == expected


def test_what_is_not_done_as_asked_is_a_warning(client: TestClient) -> None:
    long = "The sand is yellow and the wind is slow. " * 80 + "The harbour is fourteen metres deep."
    fields: dict[str, Any] = {
        "model": "rerank-v3.5",
        "documents": [*TEXTS, long],
        "max_tokens_per_doc": 100,
        "priority": 1,
    }
    warnings = rank(client, **fields).json()["meta"]["warnings"]
    said = ("'rerank-v3.5' is not served", "max_tokens_per_doc", "priority", "document 4 is longer")
    assert len(warnings) == len(said)
    assert all(words in warning for words, warning in zip(said, warnings, strict=True))


@pytest.mark.parametrize(
    ("method", "path", "fields", "status", "says"),
    [
        ("POST", "/v2/rerank", {"top_k": 3}, 422, "top_k: is not a known field"),
        ("POST", "/v2/rerank", {"return_documents": True}, 422, "return_documents"),
        ("POST", "/v2/rerank", {"documents": [{"text": "a"}]}, 422, "documents[0]: must be a string"),
        ("POST", "/v2/rerank", {"top_n": -1}, 422, "top_n: must be at least 0, given -1"),
        ("POST", "/v2/rerank", {"documents": []}, 400, "documents is empty"),
        ("POST", "/v2/rerank", {"query": " "}, 400, "query is empty"),
        ("POST", "/v2/rerank", {"documents": ["a"] * 13}, 422, "13 documents; accepted: up to 12"),
        ("POST", "/v2/rerank", {"documents": ["b" * 100_000]}, 413, "accepted: up to 100000 bytes"),
        ("PUT", "/v2/rerank", {}, 405, "accepted: POST"),
        ("POST", "/v2/embed", {}, 404, "nothing at"),
    ],
)
def test_every_error_has_the_shape_of_cohere(
    client: TestClient, method: str, path: str, fields: dict[str, Any], status: int, says: str
) -> None:
    body = {"model": "m", "query": QUESTION, "documents": TEXTS, **fields}
    reply = client.request(method, path, json=body)
    assert reply.status_code == status
    assert set(reply.json()) == {"id", "message"}
    assert says in reply.json()["message"]


def test_the_official_client(client: TestClient, pipeline: Pipeline) -> None:
    """The blocking and the async one, with a key, and what they raise."""
    assert client
    key, digest = new_key()
    secured = Settings(server={"keys": [{"name": "team", "sha256": digest}]})
    with served(create_app(pipeline=Pipeline(secured, engine=pipeline.engine))) as url:
        official = cohere.ClientV2(key, base_url=url)
        answer = official.rerank(model="rerank-v3.5", query=QUESTION, documents=TEXTS, top_n=2)
        assert answer.results[0].index == 1
        assert len(answer.results) == 2
        assert 0.5 < answer.results[0].relevance_score <= 1
        assert answer.meta is not None
        assert answer.meta.warnings is not None
        with pytest.raises(cohere.BadRequestError, match="documents is empty"):
            official.rerank(model="m", query=QUESTION, documents=[])
        with pytest.raises(cohere.UnauthorizedError, match="not known"):
            cohere.ClientV2("wrong", base_url=url).rerank(model="m", query=QUESTION, documents=TEXTS)
        older = cohere.Client(key, base_url=url)
        found = older.rerank(model="m", query=QUESTION, documents=TEXTS, return_documents=True, top_n=1)
        assert found.results[0].document is not None
        assert found.results[0].document.text == TEXTS[1]
