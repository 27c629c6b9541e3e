"""What operators see: metrics of one application, and logs without anybody's text."""

from __future__ import annotations

import io
import json
import logging
import logging.config
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from rag.api.app import create_app
from rag.api.logs import JsonLines, logging_config
from rag.api.metrics import Metrics
from rag.config import Settings
from rag.pipeline import Pipeline


def samples(client: TestClient) -> dict[str, float]:
    return {
        f"{sample.name}{json.dumps(sample.labels, sort_keys=True)}": sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
    }


def test_a_request_is_counted_everywhere(client: TestClient, harbour: list[Any]) -> None:
    before = samples(client)
    body = {"query": "How deep is the harbour?", "documents": harbour, "top_n": 1}
    usage = [client.post("/v1/context", json=body).json()["usage"] for _ in range(2)][1]
    client.post("/v1/context", json={"query": ""})
    client.get("/nothing/here")
    after = samples(client)

    def more(name: str, **labels: str) -> float:
        key = f"{name}{json.dumps(labels, sort_keys=True)}"
        return after[key] - before.get(key, 0)

    assert more("rag_requests_total", route="/v1/context", status="200") == 2
    assert more("rag_requests_total", route="/v1/context", status="422") == 1
    assert more("rag_requests_total", route="unknown", status="404") == 1
    assert more("rag_request_seconds_count", route="/v1/context") == 3
    assert more("rag_stage_seconds_count", stage="reranker") == 2
    assert more("rag_tokens_total", kind="saved") == 2 * usage["saved_tokens"]
    assert more("rag_documents_total", outcome="below_top_n") == 6
    assert more("rag_batch_requests_count") == 2
    assert more("rag_cache_lookups_total", outcome="hits") >= usage["cached_blocks"] > 0
    assert more("rag_warnings_total") >= 1
    assert after["rag_cache_bytes{}"] > 0
    assert after["rag_ready{}"] == 1
    assert after["rag_pending_requests{}"] == after["rag_model_queue{}"] == 0


def test_two_applications_do_not_share_a_registry() -> None:
    first, second = Metrics(), Metrics()
    first.answered("/x", 200, 0.1)
    assert b'rag_requests_total{route="/x",status="200"} 1.0' in first.text()
    assert b"/x" not in second.text()


def test_json_lines_carry_the_request_and_no_text(
    client: TestClient, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("rag")
    monkeypatch.setattr(logger, "handlers", [handler])
    caplog.set_level(logging.INFO, logger="rag")
    body = {"query": "secret query", "documents": ["secret document"], "budget": "100%"}
    client.post("/v1/context", json=body, headers={"X-Request-Id": "id-1"})
    entry = next(item for item in map(json.loads, out.getvalue().splitlines()) if item.get("request_id") == "id-1")
    assert (entry["method"], entry["path"], entry["status"]) == ("POST", "/v1/context", 200)
    assert entry["seconds"] > 0
    assert entry["level"] == "INFO"
    assert "secret" not in out.getvalue()
    asked = Settings(retriever="bm25", reranker=None, compressor=None, server={"log_bodies": True})
    TestClient(create_app(pipeline=Pipeline(asked, engine=pipeline.engine))).post("/v1/context", json=body)
    assert "secret document" in out.getvalue()


def test_both_styles_are_valid_configurations() -> None:
    for style in ("text", "json"):
        config = logging_config(style)  # type: ignore[arg-type]
        assert logging.config.DictConfigurator(config).config["formatters"]["line"]
