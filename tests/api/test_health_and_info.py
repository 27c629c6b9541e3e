"""What the service says about itself is true."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rag.api.app import create_app
from rag.api.schemas import ContextRequest, ContextResponse, StageReply
from rag.config import Settings
from rag.errors import ConfigError
from rag.pipeline import Pipeline
from rag.results import StageTrace


def test_ready(client: TestClient) -> None:
    until = time.monotonic() + 10
    while client.get("/health").json()["pending"] and time.monotonic() < until:
        time.sleep(0.01)  # the warm-up is counted off a moment after it has ended
    assert client.get("/health").json() == {"live": True, "ready": True, "status": "ready", "detail": "", "pending": 0}


def test_nothing_is_loaded_before_start() -> None:
    app = create_app(Settings())
    reply = TestClient(app).get("/health")
    assert (reply.status_code, reply.json()["status"], reply.json()["live"]) == (503, "loading", True)
    info = TestClient(app).get("/info").json()
    assert info["model"]["loaded"] is False
    assert info["cache"] == {}


def _unusable(settings: Settings, code: str, caplog: pytest.LogCaptureFixture) -> str:
    """A service over ``settings``, which cannot work: check what it says, and return what it logs."""
    with (
        caplog.at_level(logging.INFO),
        TestClient(create_app(settings), raise_server_exceptions=False) as client,
    ):
        reply = client.post(
            "/v1/context", json={"query": "a", "documents": ["b"]}, headers={"X-Request-Id": "unusable-1"}
        )
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, code)
        ended = time.monotonic() + 10
        while (health := client.get("/health")).json()["status"] == "loading" and time.monotonic() < ended:
            time.sleep(0.05)  # the load in the background may fail a moment later than the request did
        assert (health.status_code, health.json()["status"]) == (503, "failed")
        assert client.get("/health/live").status_code == 200
        info = client.get("/info")
        for told in (reply, health, info):
            assert "secret" not in told.text
            assert "RAG_" not in told.text
    assert f"request unusable-1 failed: {code}: " in caplog.text
    assert str(health.json()["detail"]).startswith(code) or code == "invalid_configuration"
    return caplog.text


def test_a_model_that_is_not_there_is_told_without_its_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "secret" / "none.gguf"
    settings = Settings(model=str(path), embedder=str(path.with_name("other")))
    assert str(path) in _unusable(settings, "model_not_found", caplog)
    assert TestClient(create_app(settings)).get("/info").json()["model"]["name"] == "none.gguf"
    assert TestClient(create_app(settings)).get("/info").json()["model"]["embedder"] == "other"


def test_a_setting_that_cannot_be_used_is_not_the_clients_fault(caplog: pytest.LogCaptureFixture) -> None:
    assert "mps" in _unusable(Settings(device="mps"), "invalid_configuration", caplog)
    tight = Settings(engine={"cache_bytes": 1000})
    assert "1000" in _unusable(tight, "invalid_configuration", caplog)


def test_a_damaged_store_of_models_is_told_without_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RAG_MODEL_STORE", str(tmp_path / "secret"))
    (tmp_path / "secret" / "smollm2-135m").mkdir(parents=True)
    (tmp_path / "secret" / "smollm2-135m" / "manifest.json").write_text("{")
    assert "manifest.json is damaged" in _unusable(Settings(), "artefact_mismatch", caplog)


def test_options_that_name_files_are_told_without_their_folder(tmp_path: Path) -> None:
    settings = Settings(reranker={"name": "heads", "options": {"heads": str(tmp_path / "secret" / "mine.json")}})
    told = TestClient(create_app(settings)).get("/info")
    assert told.json()["stages"]["reranker"]["options"]["heads"] == "mine.json"
    assert "secret" not in told.text
    stage = StageTrace("reranker", str(settings.reranker), 0.1, 1, 1)
    assert StageReply.model_validate(stage).name == "heads"


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


# What differs from one run to the next, or in the last digits from machine to machine.
_VARIES = {"score", "seconds", "encoded_tokens", "cached_blocks", "details"}


def _stable(answer: dict[str, Any]) -> dict[str, Any]:
    """All of an answer that must be the same again: every key, and every value but those above."""
    results = [
        {**item, "scores": set(item["scores"]), "sentences": [{**of, "score": 0} for of in item["sentences"]]}
        for item in answer["results"]
    ]
    keyed = {**answer, "results": results, "timings": set(answer["timings"]), "id": ""}
    keyed["usage"] = {name: None if name in _VARIES else of for name, of in answer["usage"].items()}
    for key in ("results", "dropped", "stages"):
        keyed[key] = [{name: None if name in _VARIES else of for name, of in item.items()} for item in keyed[key]]
    return keyed


def test_openapi_has_examples_that_hold(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    post = schema["paths"]["/v1/context"]["post"]
    assert set(post["responses"]) == {"200", "400", "401", "403", "413", "415", "422", "429", "500", "503", "504"}
    parts = schema["components"]["schemas"]
    (request,) = parts["ContextRequest"]["examples"]
    (response,) = parts["ContextResponse"]["examples"]
    ContextRequest.model_validate(request)
    ContextResponse.model_validate(response)
    reply = client.post("/v1/context", json=request)
    assert reply.status_code == 200
    assert _stable(reply.json()) == _stable(response)
    for key in ("results", "dropped"):
        scores = [[item["score"] for item in answer[key]] for answer in (reply.json(), response)]
        assert scores[0] == pytest.approx(scores[1], rel=0.02)
    for status in set(post["responses"]) - {"200"}:
        example = post["responses"][status]["content"]["application/json"]["example"]
        assert set(example["error"]) >= {"code", "message", "request_id"}
