"""What the service says about itself is true."""

from __future__ import annotations

import time
from typing import Any

import pytest
from starlette.testclient import TestClient

from rag.api.app import create_app
from rag.api.schemas import ContextRequest, ContextResponse
from rag.config import Settings
from rag.errors import ConfigError
from rag.pipeline import Pipeline


def test_ready(client: TestClient) -> None:
    assert client.get("/health").json() == {"live": True, "ready": True, "status": "ready", "detail": "", "pending": 0}


def test_nothing_is_loaded_before_start() -> None:
    app = create_app(Settings())
    reply = TestClient(app).get("/health")
    assert (reply.status_code, reply.json()["status"], reply.json()["live"]) == (503, "loading", True)
    info = TestClient(app).get("/info").json()
    assert info["model"]["loaded"] is False
    assert info["cache"] == {}


def test_a_model_that_is_not_there_is_told(tmp_path: Any) -> None:
    app = create_app(Settings(model=str(tmp_path / "none.gguf")))
    with TestClient(app, raise_server_exceptions=False) as client:
        deadline = time.monotonic() + 60
        while (health := client.get("/health")).json()["status"] == "loading" and time.monotonic() < deadline:
            time.sleep(0.05)
        assert health.status_code == 503
        assert health.json()["status"] == "failed"
        assert "none.gguf" in health.json()["detail"]
        assert client.get("/health/live").status_code == 200
        reply = client.post("/v1/context", json={"query": "a", "documents": ["b"]})
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "model_not_found")


def test_a_stage_that_does_not_exist_fails_at_once() -> None:
    with pytest.raises(ConfigError, match="no-such-stage"):
        create_app(Settings(reranker="no-such-stage"))


def test_info(client: TestClient, pipeline: Pipeline, settings: Settings) -> None:
    client.post("/v1/context", json={"query": "deep", "documents": ["The harbour is deep."]})
    info = client.get("/info").json()
    assert info["model"]["name"] == settings.model
    assert (info["model"]["layers"], info["model"]["heads_per_layer"]) == (30, 9)
    assert info["limits"] == {**settings.limits.model_dump(), "body_bytes": 100_000, "queue": 64}
    assert info["stages"]["retriever"]["name"] == "fused"
    wanted = [spec.heads for spec in pipeline.specs()]
    if None in wanted:
        assert info["heads"] is None
    else:
        assert set(info["heads"]) == {str(head) for heads in wanted for head in heads or ()}
    assert info["cache"]["budget_bytes"] == settings.engine.cache_bytes
    assert {"python", "torch", "transformers", "rag-context"} <= set(info["versions"])


def test_openapi_has_examples_that_hold(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    post = schema["paths"]["/v1/context"]["post"]
    assert set(post["responses"]) == {"200", "400", "413", "415", "422", "429", "500", "503"}
    parts = schema["components"]["schemas"]
    (request,) = parts["ContextRequest"]["examples"]
    (response,) = parts["ContextResponse"]["examples"]
    ContextRequest.model_validate(request)
    ContextResponse.model_validate(response)
    reply = client.post("/v1/context", json=request)
    assert reply.status_code == 200
    assert set(reply.json()) == set(response)
    assert set(reply.json()["results"][0]) == set(response["results"][0])
    for status in set(post["responses"]) - {"200"}:
        example = post["responses"][status]["content"]["application/json"]["example"]
        assert set(example["error"]) >= {"code", "message", "request_id"}
