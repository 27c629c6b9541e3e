"""``/v1/rerank``, ``/rerank`` and ``/v1/score`` as Jina, vLLM and TEI have them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from starlette.testclient import TestClient

from rag.api.app import create_app
from rag.api.faces.ranking import logistic, relevances
from rag.api.keys import new_key
from rag.budget import Budget
from rag.config import Settings
from rag.pipeline import Pipeline
from rag.results import ContextDocument

QUESTION = "How deep is the harbour?"
TEXTS = ["Boats are painted blue every spring.", "The harbour is fourteen metres deep.", "Bread is baked at dawn."]


def post(client: TestClient, path: str, **body: Any) -> Any:
    reply = client.post(path, json={"query": QUESTION, **body})
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank"])
def test_documents_are_strings_or_objects_and_come_back_as_objects(client: TestClient, path: str) -> None:
    answer = post(client, path, model="any", documents=[TEXTS[0], {"text": TEXTS[1]}, TEXTS[2]])
    assert answer["model"] == "smollm2-135m"
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] > 10
    assert [item["document"] for item in answer["results"]] == [{"text": TEXTS[i["index"]]} for i in answer["results"]]
    assert answer["results"][0]["index"] == 1
    assert "warnings" not in answer
    without = post(client, path, documents=TEXTS, return_documents=False)["results"]
    assert all(set(item) == {"index", "relevance_score"} for item in without)


@pytest.mark.parametrize(("given", "expected"), [(1, 1), (99, 3), (0, 3), (None, 3)])
def test_top_n(client: TestClient, given: int | None, expected: int) -> None:
    assert len(post(client, "/v1/rerank", documents=TEXTS, top_n=given)["results"]) == expected


def test_fields_that_nothing_reads_are_named(client: TestClient) -> None:
    answer = post(client, "/v1/rerank", documents=[{"text": "a", "id": 7}, "b"], rank_fields=["text"])
    assert answer["warnings"] == ["ignored, not known: rank_fields, documents[].id"]


def test_all_faces_rank_alike(client: TestClient, pipeline: Pipeline) -> None:
    jina = [(item["index"], item["relevance_score"]) for item in post(client, "/v1/rerank", documents=TEXTS)["results"]]
    v2 = post(client, "/v2/rerank", model="m", documents=TEXTS)["results"]
    tei = post(client, "/rerank", texts=TEXTS)
    raw = post(client, "/rerank", texts=TEXTS, raw_scores=True)
    score = client.post("/v1/score", json={"queries": QUESTION, "documents": TEXTS}).json()["data"]
    library = pipeline.run(QUESTION, TEXTS, top_n=3, budget=Budget(1.0, "ratio")).results
    assert [item["index"] for item in score] == [0, 1, 2]
    for face, field in ((v2, "relevance_score"), (tei, "score"), (score, "score")):
        assert {item["index"]: item[field] for item in face} == pytest.approx(dict(jina), abs=1e-4)
    assert [index for index, _ in jina] == [item["index"] for item in v2] == [item["index"] for item in tei]
    scores = {item["index"]: item["score"] for item in raw}
    assert {item.index: item.score for item in library} == pytest.approx(scores, abs=1e-4)
    assert [index for index, _ in jina] == [item["index"] for item in raw]


def test_tei_array_text_and_truncation(client: TestClient) -> None:
    plain = post(client, "/rerank", texts=TEXTS)
    assert isinstance(plain, list)
    assert all(set(item) == {"index", "score"} and 0 <= item["score"] <= 1 for item in plain)
    fields = {"return_text": True, "truncate": False, "truncation_direction": "Left"}
    with_text = post(client, "/rerank", texts=TEXTS, **fields)
    assert [item["text"] for item in with_text] == [TEXTS[item["index"]] for item in with_text]


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "says"),
    [
        ("/v1/rerank", {"documents": TEXTS, "top_n": -1}, 422, "UnprocessableEntityError", "at least 0, given -1"),
        ("/v1/rerank", {"documents": []}, 400, "BadRequestError", "at least 1 text"),
        ("/v1/rerank", {"documents": [5]}, 422, "UnprocessableEntityError", "documents[0]: must be a string"),
        ("/v1/rerank", {"documents": [{"image": "a"}]}, 422, "UnprocessableEntityError", "documents[0].text"),
        ("/v1/rerank", {"texts": TEXTS}, 422, "UnprocessableEntityError", "documents: is required"),
        ("/rerank", {}, 422, "UnprocessableEntityError", "documents: is required"),
        ("/rerank", {"documents": ["b" * 100_000]}, 413, "BadRequestError", "100000 bytes"),
        ("/score", {"text_1": ["a", "b"], "text_2": ["a", "b"]}, 422, "UnprocessableEntityError", "2 queries"),
        ("/rerank", {"texts": []}, 400, "Empty", "at least 1 text"),
        ("/rerank", {"texts": TEXTS, "query": ""}, 400, "Validation", "query is empty"),
        ("/rerank", {"texts": TEXTS, "top_n": 1}, 422, "Validation", "top_n: is not a known field"),
        ("/rerank", {"texts": [None]}, 422, "Validation", "texts[0]: must be a string"),
        ("/rerank", {"texts": ["a"] * 13}, 422, "Validation", "13 documents; accepted: up to 12"),
        ("/rerank", {"texts": TEXTS, "truncation_direction": "up"}, 422, "Validation", "'left'"),
    ],
)
def test_errors(client: TestClient, path: str, body: dict[str, Any], status: int, kind: str, says: str) -> None:
    reply = client.post(path, json={"query": QUESTION, **body})
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    if "texts" in body and path == "/rerank":
        assert set(reply.json()) == {"error", "error_type"}
        assert reply.json()["error_type"] == kind
        assert says in error
    else:
        assert set(error) == {"message", "type", "param", "code"}
        assert (error["type"], error["code"]) == (kind, status)
        assert says in error["message"]


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/score", "/v1/score", "/v2/rerank", "/v1/embeddings"])
def test_a_stranger_a_wrong_method_and_a_broken_body_get_the_shape_of_the_face(
    client: TestClient, pipeline: Pipeline, path: str
) -> None:
    secured = Settings(server={"keys": [{"name": "a", "sha256": new_key()[1]}]})
    stranger = TestClient(create_app(pipeline=Pipeline(secured, engine=pipeline.engine)))
    for reply, status in (
        (stranger.post(path, json={}), 401),
        (client.get(path), 405),
        (client.post(path, content=b"{", headers={"content-type": "application/json"}), 400),
        (client.post(path, content=b"{}", headers={"content-type": "text/plain"}), 415),
    ):
        assert reply.status_code == status
        body = reply.json()
        assert set(body) == ({"id", "message"} if path == "/v2/rerank" else {"error"})
        assert path == "/v2/rerank" or set(body["error"]) == {"message", "type", "param", "code"}


def test_a_failing_model_is_424_for_tei_alone(with_retriever: Any) -> None:
    with TestClient(create_app(pipeline=with_retriever("test-nan")), raise_server_exceptions=False) as client:
        tei = client.post("/rerank", json={"query": "a", "texts": ["b"]})
        jina = client.post("/rerank", json={"query": "a", "documents": ["b"]})
    assert (tei.status_code, tei.json()["error_type"]) == (424, "Backend")
    assert (jina.status_code, jina.json()["error"]["type"]) == (500, "InternalServerError")


def result(score: float, empty: bool = False, **scores: float) -> ContextDocument:
    return ContextDocument("a", 0, 1, score, "", "", (), (), 0, 0, 1, False, empty, scores, {})


def test_relevance_is_in_range_and_never_rises() -> None:
    assert relevances([result(800), result(0), result(-800), result(-900, empty=True)]) == [1.0, 0.5, 0.0, 0.0]
    calibrated = [result(3, relevance=0.4), result(2, relevance=0.6), result(1, relevance=0.2), result(0, empty=True)]
    assert relevances(calibrated) == [0.4, 0.4, 0.2, 0.0]
    assert relevances([]) == []
    assert logistic(1.5) == pytest.approx(1 / (1 + math.exp(-1.5)))
