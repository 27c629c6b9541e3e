"""The page at ``/`` and what it is made of, as HTTP gives it; `tests/e2e` looks at it in a browser."""

from __future__ import annotations

import re
from hashlib import sha256
from importlib import resources
from typing import Any

import pytest
from starlette.testclient import TestClient

from rag.api.app import create_app
from rag.api.explain import MOST_DOCUMENTS, ExplainResponse
from rag.config import Settings
from rag.demo_data import demo_corpus, demo_queries
from rag.pipeline import Pipeline

FILES = {file.name: file.read_text("utf-8") for file in (resources.files("rag.api.playground") / "page").iterdir()}


KEY = "a key"


@pytest.fixture(scope="module")
def keyed() -> TestClient:
    """A service with a key and the limits that ship. Nothing here asks it for a model."""
    key = {"name": "only", "sha256": sha256(KEY.encode()).hexdigest()}
    return TestClient(create_app(pipeline=Pipeline(Settings(server={"keys": [key]}))))


def test_the_page_and_all_it_names_are_served_with_headers_that_let_nothing_else_in(keyed: TestClient) -> None:
    """None of it needs a key, and none of it comes from elsewhere."""
    page = keyed.get("/")
    named = set(re.findall(r'(?:href|src)="(?!#)([^"]+)"', page.text))
    imported = {f"playground/{name}" for text in FILES.values() for name in re.findall(r'from "\./([^"]+)"', text)}
    assert {name.removeprefix("playground/") for name in named | imported} | {"index.html"} == set(FILES)
    for path in ("", *sorted(named | imported), "playground/example.json"):
        reply = keyed.get(f"/{path}")
        assert reply.status_code == 200, path
        policy = reply.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert keyed.get("/playground/app.js").headers["content-type"] == "text/javascript; charset=utf-8"
    assert keyed.get("/info").status_code == 401


def test_no_script_makes_markup_of_text_and_the_page_holds_no_inline_code() -> None:
    code = "".join(text for name, text in FILES.items() if name.endswith(".js"))
    assert "textContent" in code
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|DOMParser|srcdoc", code)
    assert not re.search(r"localStorage|sessionStorage|document\.cookie|indexedDB", code), (
        "a key is kept in memory only"
    )
    page = FILES["index.html"]
    assert not re.search(r"\son\w+=|\sstyle=|<style|https?://|<script(?![^>]*\ssrc=)", page)
    assert not re.search(r"url\(|@import|https?://", FILES["style.css"])


def test_every_field_has_a_label_and_every_id_that_is_named_exists_once() -> None:
    page = FILES["index.html"]
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    pointed = re.findall(r'(?:\bfor|aria-labelledby|aria-describedby|data-copy)="([^"]+)"', page)
    used = re.findall(r'\b(?:byId|value)\("([^"]+)"\)', "".join(FILES.values()))
    assert set(pointed) | set(used) <= set(ids)


@pytest.mark.parametrize("name", ["nothing.js", "index.html", "..%2f__init__.py", "%2e%2e/__init__.py", "a/b"])
def test_no_other_name_is_served(client: TestClient, name: str) -> None:
    reply = client.get(f"/playground/{name}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")


def test_the_example_is_acceptable_to_the_service(client: TestClient) -> None:
    example = client.get("/playground/example.json").json()
    assert example["queries"] == [query["text"] for query in demo_queries()]
    known = {document.id: document.text for document in demo_corpus()}
    assert all(known[document["id"]] == document["text"] for document in example["documents"])
    relevant = {name for query in demo_queries() for name in query["relevant"]}
    assert relevant <= {document["id"] for document in example["documents"]}
    assert len(example["documents"]) <= MOST_DOCUMENTS


def test_an_explanation_is_the_score_as_a_sum(client: TestClient, harbour: list[dict[str, Any]]) -> None:
    body = {"query": "How deep is the harbour?", "documents": [*harbour, "🐟 Fish 🐟 swim under the quay."]}
    replies = {index: client.post("/v1/explain", json={**body, "index": index}) for index in (0, 1, 4)}
    assert [reply.status_code for reply in replies.values()] == [200, 200, 200]
    found = {index: ExplainResponse.model_validate_json(reply.text) for index, reply in replies.items()}
    for index, text in ((0, harbour[0]["text"]), (4, body["documents"][4])):
        told = found[index]
        assert (told.index, told.windows, told.window) == (index, 1, (0, len(text)))
        assert told.score == pytest.approx(sum(head.value for head in told.heads), abs=1e-6)
        assert told.score == pytest.approx(told.outside + sum(token.value for token in told.tokens), abs=1e-6)
        covered = {place for token in told.tokens for place in range(*token.span)}
        assert all(place in covered for place, character in enumerate(text) if not character.isspace())
    assert found[0].document == "depth"
    best = max(found[0].tokens, key=lambda token: token.value)
    assert "Gulls" not in harbour[0]["text"][slice(*best.span)]
    assert found[0].score > found[4].score
    assert (found[1].score, found[1].tokens, found[1].heads) == (0.0, (), ())


@pytest.mark.parametrize(
    ("change", "status", "code", "param"),
    [
        ({"query": " "}, 400, "empty_query", None),
        ({"documents": []}, 422, "invalid_input", "documents"),
        ({"documents": ["d"], "index": 1}, 422, "invalid_input", "index"),
        ({"index": -1}, 422, "invalid_input", "index"),
        ({"heads": "all"}, 422, "invalid_input", "heads"),
        ({"query": "deep " * 60}, 422, "query_too_long", None),
        ({"documents": ["d"] * 13}, 422, "limit_exceeded", "documents"),
        ({"documents": [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}]}, 422, "duplicate_ids", None),
    ],
)
def test_what_cannot_be_explained_is_refused(
    client: TestClient, change: dict[str, Any], status: int, code: str, param: str | None
) -> None:
    reply = client.post("/v1/explain", json={"query": "How deep?", "documents": ["It is deep."], **change})
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error.get("param")) == (status, code, param), error["message"]


def test_an_explanation_takes_fewer_documents_than_a_context(keyed: TestClient) -> None:
    """Whatever an operator allows for a context."""
    body = {"query": "q", "documents": ["d"] * (MOST_DOCUMENTS + 1)}
    reply = keyed.post("/v1/explain", json=body, headers={"Authorization": f"Bearer {KEY}"})
    assert reply.status_code == 422
    assert f"1 to {MOST_DOCUMENTS}" in reply.json()["error"]["message"]
    assert keyed.post("/v1/explain", json=body).status_code == 401
