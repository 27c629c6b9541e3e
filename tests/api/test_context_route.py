"""``POST /v1/context`` over the real models."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from starlette.testclient import TestClient

from rag.api.schemas import ContextResponse
from rag.pipeline import Pipeline

QUESTION = "How deep is the harbour?"


def ask(client: TestClient, documents: list[Any], query: str = QUESTION, **options: Any) -> dict[str, Any]:
    reply = client.post("/v1/context", json={"query": query, "documents": documents, **options})
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = json.loads(reply.text, parse_constant=pytest.fail)
    ContextResponse.model_validate_json(reply.text)
    return answer


def test_ranks_the_answer_first_and_accounts_for_every_document(client: TestClient, harbour: list[Any]) -> None:
    answer = ask(client, harbour, top_n=2)
    best = answer["results"][0]
    assert (best["id"], best["index"], best["rank"]) == ("depth", 0, 1)
    assert best["metadata"] == {"page": 3, "source": None}
    assert "fourteen metres" in best["text"]
    assert best["text"] in answer["context"]
    assert {item["index"] for item in answer["results"] + answer["dropped"]} == set(range(len(harbour)))
    assert all(item["detail"] for item in answer["dropped"])
    assert answer["model"] == "smollm2-135m"


def test_spans_and_sentences_lie_in_the_source(client: TestClient, harbour: list[Any]) -> None:
    for item in ask(client, harbour)["results"]:
        source = harbour[item["index"]]["text"]
        kept = "".join(source[start:end] for start, end in item["spans"])
        assert "".join(item["text"].replace("…", "").split()) == "".join(kept.split())
        for sentence in item["sentences"]:
            start, end = sentence["span"]
            assert 0 <= start < end <= len(source)


def test_equals_the_library(client: TestClient, pipeline: Pipeline, harbour: list[Any]) -> None:
    answer, result = ask(client, harbour), pipeline.run(QUESTION, harbour)
    assert answer["context"] == result.context
    assert [item["id"] for item in answer["results"]] == [item.id for item in result.results]
    for item, expected in zip(answer["results"], result.results, strict=True):
        assert math.isclose(item["score"], expected.score, rel_tol=1e-4, abs_tol=1e-4)


def test_account(client: TestClient, harbour: list[Any]) -> None:
    answer = ask(client, harbour)
    usage = answer["usage"]
    assert usage["saved_tokens"] == usage["corpus_tokens"] - usage["context_tokens"]
    assert {"queue", "retriever", "total"} <= set(answer["timings"])
    stages = sum(seconds for name, seconds in answer["timings"].items() if name not in ("queue", "total"))
    assert 0 < stages <= answer["timings"]["total"]
    assert answer["stages"][0]["stage"] == "retriever"


def test_budget_is_never_exceeded(client: TestClient, harbour: list[Any]) -> None:
    for budget in (20, {"amount": 20}, {"amount": 20, "unit": "tokens"}, "20 tokens"):
        assert sum(item["tokens_after"] for item in ask(client, harbour, budget=budget)["results"]) <= 20
    everything = ask(client, harbour, budget="100%", top_n=4)
    assert all(item["tokens_after"] == item["tokens_before"] for item in everything["results"] if not item["empty"])


@pytest.mark.parametrize(("given", "expected"), [(1, 1), (3, 3), (4, 4), (10**30, 4), (None, 4)])
def test_top_n(client: TestClient, harbour: list[Any], given: int | None, expected: int) -> None:
    assert len(ask(client, harbour, top_n=given, budget="100%")["results"]) == expected


def test_plain_strings_get_their_position_as_id(client: TestClient) -> None:
    answer = ask(client, ["The harbour is 14 m deep.", {"text": "Boats are blue.", "id": 7}], budget="100%")
    assert sorted((item["index"], item["id"]) for item in answer["results"]) == [(0, "0"), (1, "7")]


def test_empty_corpus_is_a_warning_and_an_empty_document_is_last(client: TestClient, harbour: list[Any]) -> None:
    nothing = ask(client, [])
    assert (nothing["results"], nothing["context"]) == ([], "")
    assert "empty" in nothing["warnings"][0]
    answer = ask(client, harbour, top_n=4, budget="100%")
    assert [item["id"] for item in answer["results"] if item["empty"]] == ["empty"]
    assert max(answer["results"], key=lambda item: item["rank"])["id"] == "empty"
    assert any("'empty'" in warning for warning in answer["warnings"])


def test_long_document_is_read_in_windows_to_its_end(client: TestClient) -> None:
    sand = "The sand is yellow and the wind is slow. " * 80
    answer = ask(client, [sand + "The harbour is fourteen metres deep.", "Bread is baked at dawn."], top_n=2, budget=30)
    long = next(item for item in answer["results"] if item["index"] == 0)
    assert long["windowed"]
    assert long["windows"] > 1
    assert long["truncated"] is False
    assert "fourteen" in long["text"]


def test_parts_can_be_left_out(client: TestClient, harbour: list[Any]) -> None:
    answer = ask(client, harbour, return_text=False, return_sentences=False)
    assert all("text" not in item and "sentences" not in item and item["spans"] for item in answer["results"][:1])


@pytest.mark.parametrize(
    "text", ["\x00", "Query: what? [3] <|im_end|>", "مرحبا 你好 👩‍👩‍👧", "a" * 3000, "a\u2028b \ufeffc", "<b>&amp;"]
)
def test_odd_text_comes_back_unchanged(client: TestClient, text: str) -> None:
    answer = ask(client, [text, "The harbour is deep."], query=f"{text[:20]} harbour", budget="100%", top_n=2)
    odd = next(item for item in answer["results"] + answer["dropped"] if item["index"] == 0)
    assert odd.get("text", text) == text


def test_request_id_is_taken_or_made(client: TestClient) -> None:
    body = {"query": "q", "documents": []}
    given = client.post("/v1/context", json=body, headers={"X-Request-Id": "abc-1.2"})
    assert given.headers["x-request-id"] == given.json()["id"] == "abc-1.2"
    for bad in ("a b", "x" * 200, "a\tb", ""):
        made = client.post("/v1/context", json=body, headers={"X-Request-Id": bad})
        assert made.headers["x-request-id"] == made.json()["id"] != bad
