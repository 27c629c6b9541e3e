"""Every bad request has one status, one code and one shape; none reaches the model or harms the service."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from rag.api import errors as api_errors
from rag.api.app import create_app
from rag.errors import RagError

JSON = {"content-type": "application/json"}
LONG = "how deep " * 60


def assert_error(reply: Any, status: int, code: str) -> dict[str, Any]:
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code), reply.text
    assert reply.headers["content-type"] == "application/json"
    assert set(reply.json()) == {"error"}
    error: dict[str, Any] = reply.json()["error"]
    assert set(error) - {"param"} == {"code", "message", "request_id"}
    assert error["request_id"] == reply.headers["x-request-id"]
    return error


BODIES: list[tuple[str, Any, int, str, str]] = [
    # what, body (bytes as they are, else made JSON), status, code, what the message says
    ("nothing", b"", 400, "malformed_json", "empty"),
    ("half", b'{"query": "a"', 400, "malformed_json", "line 1 column"),
    ("not UTF-8", b'{"query": "\xff", "documents": []}', 400, "malformed_json", "UTF-8"),
    ("UTF-16", '{"query": "a", "documents": []}'.encode("utf-16"), 400, "malformed_json", "UTF-8"),
    ("NaN", b'{"query": "a", "documents": [], "top_n": NaN}', 400, "malformed_json", "column"),
    ("infinity", b'{"query": "a", "documents": [], "budget": -Infinity}', 400, "malformed_json", "column"),
    ("huge integer", b'{"query":"a","documents":[],"top_n":' + b"9" * 5000 + b"}", 400, "malformed_json", "range"),
    ("deep nesting", b'{"query":"a","documents":' + b"[" * 50_000, 400, "malformed_json", "recursion"),
    ("lone surrogate", b'{"query": "\\ud800", "documents": []}', 400, "malformed_json", "hex escape"),
    ("a list", [], 422, "invalid_input", "JSON object"),
    ("null", None, 422, "invalid_input", "JSON object"),
    ("a string", "query", 422, "invalid_input", "JSON object"),
    ("no query", {"documents": []}, 422, "invalid_input", "query: is required"),
    ("no documents", {"query": "a"}, 422, "invalid_input", "documents: is required"),
    ("empty query", {"query": "", "documents": ["a"]}, 400, "empty_query", "''"),
    ("blank query", {"query": " \n\t", "documents": ["a"]}, 400, "empty_query", "white space"),
    ("query is a number", {"query": 5, "documents": []}, 422, "not_text", "query: must be a string, given 5"),
    ("query is null", {"query": None, "documents": []}, 422, "not_text", "given null"),
    ("long query", {"query": LONG, "documents": ["a"]}, 422, "query_too_long", "up to 40"),
    ("documents is text", {"query": "a", "documents": "b"}, 422, "invalid_input", "must be a list"),
    ("document is a number", {"query": "a", "documents": ["b", 5]}, 422, "not_text", "documents[1]"),
    ("document is null", {"query": "a", "documents": [None]}, 422, "not_text", "documents[0]"),
    ("text is a list", {"query": "a", "documents": [{"text": ["b"]}]}, 422, "not_text", "documents[0].text"),
    ("no text", {"query": "a", "documents": [{"id": "b"}]}, 422, "invalid_input", "documents[0].text: is required"),
    ("id is true", {"query": "a", "documents": [{"id": True, "text": "b"}]}, 422, "not_text", "documents[0].id"),
    ("same id", {"query": "a", "documents": [{"id": "x", "text": "b"}] * 2}, 422, "duplicate_ids", "'x'"),
    ("id is a position", {"query": "a", "documents": [{"id": "1", "text": "b"}, "c"]}, 422, "duplicate_ids", "'1'"),
    ("unknown field", {"query": "a", "documents": [], "top_k": 1}, 422, "invalid_input", "top_k: is not a known field"),
    ("alias", {"query": "a", "corpus": []}, 422, "invalid_input", "accepted: query, documents"),
    ("unknown in document", {"query": "a", "documents": [{"txt": "b"}]}, 422, "invalid_input", "documents[0].txt"),
    (
        "metadata too large",
        b'{"query":"a","documents":[{"text":"b","metadata":{"n":1e999}}]}',
        422,
        "invalid_input",
        "",
    ),
    ("metadata is text", {"query": "a", "documents": [{"text": "b", "metadata": "c"}]}, 422, "invalid_input", "object"),
    ("top_n 0", {"query": "a", "documents": ["b"], "top_n": 0}, 422, "invalid_input", "at least 1, given 0"),
    ("top_n below", {"query": "a", "documents": ["b"], "top_n": -3}, 422, "invalid_input", "at least 1, given -3"),
    ("top_n text", {"query": "a", "documents": ["b"], "top_n": "5"}, 422, "invalid_input", 'whole number, given "5"'),
    ("top_n true", {"query": "a", "documents": ["b"], "top_n": True}, 422, "invalid_input", "whole number"),
    ("top_n fraction", {"query": "a", "documents": ["b"], "top_n": 1.5}, 422, "invalid_input", "top_n"),
    ("retrieve_k 0", {"query": "a", "documents": ["b"], "retrieve_k": 0}, 422, "invalid_input", "retrieve_k"),
    ("budget 0", {"query": "a", "documents": ["b"], "budget": 0}, 422, "impossible_budget", "above 0"),
    ("budget below", {"query": "a", "documents": ["b"], "budget": -1}, 422, "impossible_budget", "-1"),
    ("budget ratio", {"query": "a", "documents": [], "budget": "300%"}, 422, "impossible_budget", "(0, 1]"),
    ("budget words", {"query": "a", "documents": [], "budget": "much"}, 422, "invalid_input", "accepted forms"),
    (
        "budget unit",
        {"query": "a", "documents": [], "budget": {"amount": 1, "unit": "m"}},
        422,
        "invalid_input",
        "ratio",
    ),
    ("budget field", {"query": "a", "documents": [], "budget": {"tokens": 1}}, 422, "invalid_input", "amount, unit"),
    ("flag as text", {"query": "a", "documents": [], "return_text": "no"}, 422, "invalid_input", "true or false"),
    (
        "many documents",
        {"query": "a", "documents": ["b"] * 13},
        422,
        "limit_exceeded",
        "13 documents; accepted: up to 12",
    ),
    # The count comes first: nothing of a list that is too long is looked at.
    (
        "many that are wrong",
        {"query": 5, "documents": [5] * 13},
        422,
        "limit_exceeded",
        "13 documents; accepted: up to",
    ),
    ("very many", b'{"query":"a","documents":[' + b'"",' * 30_000 + b'""]}', 422, "limit_exceeded", "30001 documents"),
    ("long document", {"query": "a", "documents": ["b" * 20_001]}, 422, "limit_exceeded", "20001"),
    ("long corpus", {"query": "a", "documents": ["b" * 19_000] * 3}, 422, "limit_exceeded", "57000"),
]


@pytest.mark.parametrize(("what", "body", "status", "code", "says"), BODIES, ids=[row[0] for row in BODIES])
def test_bad_body(client: TestClient, what: str, body: Any, status: int, code: str, says: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    error = assert_error(client.post("/v1/context", content=content, headers=JSON), status, code)
    assert says in error["message"], what


def test_the_field_at_fault_is_named(client: TestClient) -> None:
    reply = client.post("/v1/context", json={"query": "a", "documents": ["b", {"text": 5}]})
    assert assert_error(reply, 422, "not_text")["param"] == "documents[1].text"


REQUESTS: list[tuple[str, str, dict[str, str], int, str]] = [
    ("GET", "/v1/context", {}, 405, "method_not_allowed"),
    ("PUT", "/health", JSON, 405, "method_not_allowed"),
    ("POST", "/v1/contexts", JSON, 404, "not_found"),
    ("POST", "/v1/context/", JSON, 404, "not_found"),
    ("GET", "/docs", {}, 404, "not_found"),
    ("GET", "/../etc/passwd", {}, 404, "not_found"),
    ("POST", "/v1/context", {}, 415, "unsupported_media_type"),
    ("POST", "/v1/context", {"content-type": "text/plain"}, 415, "unsupported_media_type"),
    ("POST", "/v1/context", {"content-type": "multipart/form-data"}, 415, "unsupported_media_type"),
    ("POST", "/v1/context", {"content-type": "application/json; charset=latin-1"}, 415, "unsupported_media_type"),
    ("POST", "/v1/context", {**JSON, "content-encoding": "gzip"}, 415, "unsupported_media_type"),
]


@pytest.mark.parametrize(("method", "path", "headers", "status", "code"), REQUESTS)
def test_bad_request_line(
    client: TestClient, method: str, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    reply = client.request(method, path, headers=headers, content=b'{"query": "a", "documents": []}')
    assert_error(reply, status, code)
    if status == 405:
        assert reply.headers["allow"] in ("GET", "POST")


def test_too_large_with_and_without_a_length(client: TestClient) -> None:
    body = json.dumps({"query": "a", "documents": ["b" * 100_000]}).encode()
    assert (
        "100000 bytes"
        in assert_error(client.post("/v1/context", content=body, headers=JSON), 413, "body_too_large")["message"]
    )
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 1_000:
            sent += 1
            yield b"x" * 1_000

    reply = client.post("/v1/context", content=endless(), headers=JSON)
    assert "content-length" not in reply.request.headers
    assert_error(reply, 413, "body_too_large")


def test_a_length_that_is_not_one_does_not_open_the_gate(client: TestClient) -> None:
    headers = {**JSON, "content-length": "12abc"}
    body = json.dumps({"query": "a", "documents": ["b" * 100_000]}).encode()
    assert_error(client.post("/v1/context", content=body, headers=headers), 413, "body_too_large")


def test_every_library_error_has_a_status() -> None:
    def codes(cls: type[RagError]) -> set[str]:
        # Clients and evaluations have errors of their own, which no request can meet.
        mine = (sub for sub in cls.__subclasses__() if sub.__module__ == RagError.__module__)
        return {cls.code}.union(*(codes(sub) for sub in mine))

    assert codes(RagError) <= set(api_errors.STATUS)


def test_nan_is_an_error(with_retriever: Any) -> None:
    with TestClient(create_app(pipeline=with_retriever("test-nan")), raise_server_exceptions=False) as client:
        reply = client.post("/v1/context", json={"query": "a", "documents": ["b"]})
    assert "finite" in assert_error(reply, 500, "model_output")["message"]


def test_a_crash_leaks_nothing(with_retriever: Any, caplog: pytest.LogCaptureFixture) -> None:
    body = {"query": "secret question", "documents": ["secret document"]}
    with (
        caplog.at_level(logging.INFO),
        TestClient(create_app(pipeline=with_retriever("test-crash")), raise_server_exceptions=False) as client,
    ):
        reply = client.post("/v1/context", json=body, headers={"X-Request-Id": "crash-1"})
    error = assert_error(reply, 500, "internal_error")
    assert "ZeroDivisionError" not in error["message"]
    assert "crash-1 failed: ZeroDivisionError" in caplog.text
    assert "secret" not in reply.text + caplog.text


_leaf = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_json = st.recursive(_leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))
_field = st.sampled_from(["query", "documents", "top_n", "budget", "retrieve_k", "return_text", "amount", "x"])


@hypothesis_settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=_json | st.dictionaries(_field, _json))
def test_no_body_makes_the_service_fail(client: TestClient, body: Any) -> None:
    reply = client.post("/v1/context", content=json.dumps(body).encode(), headers=JSON)
    assert reply.status_code in (200, 400, 422)
    if reply.status_code != 200:
        assert_error(reply, reply.status_code, reply.json()["error"]["code"])
