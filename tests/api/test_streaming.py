"""Server-sent events over a real socket: each stage as it ends, the answer, the error."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from event_stream import events

from rag.api.app import create_app
from rag.api.schemas import ContextResponse, StageEvent
from rag.attention.types import Attender
from rag.config import Settings
from rag.pipeline import Pipeline
from rag.registry import register
from rag.types import Query, ScoredDocument

EVENTS = {"Accept": "text/event-stream"}


@register("ordering", "test-gated")
class GatedOrdering:
    gate = threading.Event()

    def order(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        assert attender
        assert self.gate.wait(60)
        if query.text == "crash":
            raise ZeroDivisionError(documents[0].document.text)
        return list(documents)


@contextmanager
def listening(pipeline: Pipeline) -> Iterator[tuple[str, Any]]:
    app = create_app(pipeline=pipeline)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1/context", app
    finally:
        server.should_exit = True
        thread.join(60)


@pytest.fixture
def service(client: Any, pipeline: Pipeline) -> Iterator[tuple[str, Any]]:
    assert client
    GatedOrdering.gate.set()
    settings = Settings(ordering="test-gated", budget=20)
    with listening(Pipeline(settings, engine=pipeline.engine, embedder=pipeline.resources.embedder())) as (url, app):
        yield url, app
        GatedOrdering.gate.set()  # the server ends when its work has


def test_stages_come_as_they_end_and_then_the_same_answer(service: tuple[str, Any], harbour: list[Any]) -> None:
    url, _ = service
    body = {"query": "How deep is the harbour?", "documents": harbour}
    plain = httpx.post(url, json=body, timeout=60).json()
    GatedOrdering.gate.clear()
    with httpx.stream("POST", url, json=body, headers=EVENTS, timeout=60) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert reply.headers["x-request-id"]
        stream = events(reply)
        early = [next(stream) for _ in range(3)]
        GatedOrdering.gate.set()  # only now can the last stage end: what came before came while it worked
        last, (name, answer) = list(stream)
    assert [data["stage"] for _, data in early] == ["retriever", "reranker", "compressor"]
    for _, data in [*early, last]:
        StageEvent.model_validate(data)
    assert early[1][1]["documents"][0] | {"score": 0} == {"id": "depth", "index": 0, "rank": 1, "score": 0}
    assert early[2][1]["documents"][0]["spans"]
    assert (last[0], last[1]["stage"], name) == ("stage", "ordering", "result")
    ContextResponse.model_validate(answer)
    assert answer["context"] == plain["context"]
    assert [item["id"] for item in answer["results"]] == [item["id"] for item in plain["results"]]


def test_errors_before_and_after_the_first_stage(service: tuple[str, Any]) -> None:
    url, _ = service
    early = httpx.post(url, json={"query": "q " * 900, "documents": ["d"]}, headers=EVENTS, timeout=60)
    assert (early.status_code, early.json()["error"]["code"]) == (422, "query_too_long")
    with httpx.stream("POST", url, json={"query": "crash", "documents": ["secret"]}, headers=EVENTS) as reply:
        found = list(events(reply))
    assert [name for name, _ in found] == ["stage", "stage", "stage", "error"]
    assert found[-1][1]["error"]["code"] == "internal_error"
    assert "secret" not in json.dumps(found[-1][1])
    assert found[-1][1]["error"]["request_id"] == reply.headers["x-request-id"]
    nothing = httpx.post(url, json={"query": "q", "documents": []}, headers=EVENTS, timeout=60)
    assert [name for name, _ in events(nothing)] == ["result"]


def test_a_client_that_leaves_ends_the_work(service: tuple[str, Any]) -> None:
    url, app = service
    GatedOrdering.gate.clear()
    with httpx.stream("POST", url, json={"query": "q", "documents": ["d"]}, headers=EVENTS, timeout=60) as reply:
        next(events(reply))
    deadline = time.monotonic() + 30
    while 'why="client_gone"} 1.0' not in app.state.service.metrics.text().decode() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert time.monotonic() < deadline
