"""API keys, scopes and rates, over HTTP and by themselves."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from typer.testing import CliRunner

from rag.api.app import create_app
from rag.api.keys import TokenBucket, new_key
from rag.cli.app import app as cli
from rag.config import Settings
from rag.errors import ConfigError
from rag.pipeline import Pipeline


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@settings(deadline=None)
@given(st.floats(0.5, 600), st.lists(st.floats(0, 20), min_size=1, max_size=60))
def test_a_bucket_never_gives_more_than_its_rate(per_minute: float, pauses: list[float]) -> None:
    clock = Clock()
    bucket = TokenBucket(per_minute, clock)
    given_ = 0
    for pause in pauses:
        clock.now += pause
        wait = bucket.take()
        given_ += not wait
        assert given_ <= bucket.capacity + clock.now * per_minute / 60 + 1e-6
        if wait:
            clock.now += wait + 1e-6
            assert bucket.take() == 0
            given_ += 1


@pytest.fixture
def secured(client: TestClient, pipeline: Pipeline) -> tuple[TestClient, str, str]:
    assert client
    (user, user_hash), (scraper, scraper_hash) = new_key(), new_key()
    settings = Settings(
        retriever="bm25",
        reranker=None,
        compressor=None,
        ordering=None,
        server={
            "keys": [
                {"name": "user", "sha256": user_hash, "requests_per_minute": 3},
                {"name": "scraper", "sha256": scraper_hash, "scopes": ["metrics"]},
            ]
        },
    )
    app = create_app(pipeline=Pipeline(settings, engine=pipeline.engine))
    return TestClient(app, raise_server_exceptions=False), user, scraper


BODY: dict[str, Any] = {"query": "q", "documents": ["d"]}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_who_may_do_what(secured: tuple[TestClient, str, str]) -> None:
    client, user, scraper = secured
    for headers in ({}, bearer("wrong"), {"Authorization": user}, {"Authorization": f"Basic {user}"}, bearer(" ")):
        refused = client.post("/v1/context", json=BODY, headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized")
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert refused.json()["error"]["request_id"] == refused.headers["x-request-id"]
    assert client.post("/v1/context", json=BODY, headers=bearer(user)).status_code == 200
    forbidden = client.post("/v1/context", json=BODY, headers=bearer(scraper))
    assert (forbidden.status_code, forbidden.json()["error"]["code"]) == (403, "forbidden")
    assert "metrics; this needs infer" in forbidden.json()["error"]["message"]
    assert client.get("/metrics", headers=bearer(user)).status_code == 403
    assert client.get("/metrics", headers=bearer(scraper)).status_code == 200
    assert client.get("/info").status_code == 401
    assert client.get("/health/live").status_code == 200


def test_a_stranger_is_refused_before_the_body_is_looked_at(secured: tuple[TestClient, str, str]) -> None:
    client, _, _ = secured
    assert client.post("/v1/context", content=b"{", headers={"content-type": "text/plain"}).status_code == 401


def test_the_rate_of_a_key(secured: tuple[TestClient, str, str]) -> None:
    client, user, _ = secured
    replies = [client.post("/v1/context", json=BODY, headers=bearer(user)) for _ in range(4)]
    assert [reply.status_code for reply in replies] == [200, 200, 200, 429]
    error = replies[-1].json()["error"]
    assert error["code"] == "rate_limited"
    assert "'user'" in error["message"]
    assert "up to 3 per minute" in error["message"]
    assert 1 <= int(replies[-1].headers["retry-after"]) <= 20


def test_keys_are_hashed_and_told_apart() -> None:
    key, digest = new_key()
    assert sha256(key.encode()).hexdigest() == digest
    assert new_key()[0] != key
    for keys in (
        [{"name": "a", "sha256": digest}, {"name": "b", "sha256": digest}],
        [{"name": "a", "sha256": "0" * 64}, {"name": "a", "sha256": digest}],
        [{"name": "a", "sha256": key}],
        [{"name": "a", "sha256": digest, "scopes": ["everything"]}],
    ):
        with pytest.raises(ConfigError, match="keys"):
            Settings(server={"keys": keys})


def test_the_command_makes_a_key_whose_settings_load(tmp_path: Any) -> None:
    printed = CliRunner().invoke(cli, ["serve", "--new-key", "ops"]).output
    path = tmp_path / "settings.yaml"
    path.write_text(printed)
    (made,) = Settings.load(path).server.keys
    key = printed.splitlines()[0].rpartition(" ")[2]
    assert (made.name, made.sha256) == ("ops", sha256(key.encode()).hexdigest())


def test_other_pages_may_call_only_where_that_is_set(client: TestClient, pipeline: Pipeline) -> None:
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in client.get("/health", headers=asked).headers
    assert client.options("/v1/context", headers=asked).status_code == 405
    settings = Settings(retriever="bm25", reranker=None, server={"cors_origins": ["https://app.example"]})
    other = TestClient(create_app(pipeline=Pipeline(settings, engine=pipeline.engine)))
    allowed = other.options("/v1/context", headers=asked)
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    refused = other.options("/v1/context", headers={**asked, "Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in refused.headers
