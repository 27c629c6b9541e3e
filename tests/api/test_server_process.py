"""The service as users run it: a process that listens, answers, and finishes what it accepted."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag.api.process import ServerStartError, running
from rag.api.server import environment
from rag.config import Settings
from rag.demo_data import demo_corpus


def test_stopping_finishes_the_request_in_flight() -> None:
    documents = [{"id": item.id, "text": item.text} for item in demo_corpus()[:8]]
    replies: list[httpx.Response] = []

    def ask(url: str) -> None:
        body = {"query": "How did the crew die?", "documents": documents}
        replies.append(httpx.post(f"{url}/v1/context", json=body, timeout=300))

    with running(Settings()) as server:
        server.wait_ready(300)
        thread = threading.Thread(target=ask, args=(server.url,))
        thread.start()
        deadline = time.monotonic() + 30
        while httpx.get(f"{server.url}/health").json()["pending"] == 0 and time.monotonic() < deadline:
            time.sleep(0.005)
        assert not replies
        assert server.stop() == 0
        thread.join(60)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.url}/health")
    assert [reply.status_code for reply in replies] == [200]
    assert replies[0].json()["results"]


def test_a_service_that_cannot_load_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerStartError, match=r"(?s)did not start: model_not_found.*\n.*model_not_found: .*none\.gguf"),
        running(Settings(model=str(tmp_path / "none.gguf"))) as server,
    ):
        server.wait_ready(120)


def test_settings_survive_the_way_through_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base: dict[str, Any] = {"RAG_TOP_N": "9", "RAG_ENGINE__LAYOUT": "causal", "RAG_MODEL_STORE": "/kept", "HOME": "/h"}
    settings = Settings(top_n=3, engine={"window_tokens": 200}, reranker=None)
    made = environment(settings, tmp_path, base)
    assert {"RAG_MODEL_STORE": "/kept", "HOME": "/h"}.items() <= made.items()
    for name in [*os.environ]:
        if name.startswith("RAG_"):
            monkeypatch.delenv(name)
    for name, value in made.items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings
