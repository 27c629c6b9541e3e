"""The typed clients against the running service."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from time import time

import httpx
import pytest
from serving import served

from rag.api.app import create_app
from rag.api.keys import new_key
from rag.budget import Budget
from rag.client import AsyncClient, Client, ServiceError
from rag.client.calls import Connection
from rag.config import Settings
from rag.errors import InputError
from rag.types import Document

QUESTION = "How deep is the harbour?"
PORT = [
    Document("depth", "The quay was built in 1871. The harbour is fourteen metres deep.", "Harbour", {"page": 3}),
    {"id": "boats", "text": "Boats are painted blue every spring."},
    {"id": "bread", "text": "Bread is baked before dawn."},
]
SCOPES = ["infer", "corpora:read", "corpora:write"]


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[str, str, str]]:
    """Its address, a key, and a key that may ask 60 times a minute."""
    (key, digest), (slow, slow_digest) = new_key(), new_key()
    keys = [
        {"name": "team", "sha256": digest, "scopes": SCOPES},
        {"name": "slow", "sha256": slow_digest, "scopes": SCOPES, "requests_per_minute": 60},
    ]
    with served(create_app(Settings(server={"keys": keys}))) as url:
        yield url, key, slow


@pytest.fixture
def client(service: tuple[str, str, str]) -> Iterator[Client]:
    with Client(*service[:2], timeout=600) as client:
        yield client


def test_context_rerank_and_compress(client: Client) -> None:
    answer = client.context(QUESTION, PORT, top_n=1, budget=12)
    assert answer.results[0].id == "depth"
    assert answer.results[0].metadata == {"page": 3}
    assert answer.results[0].text == "The harbour is fourteen metres deep."
    ranked = client.rerank(QUESTION, PORT)
    assert ranked.results[0].index == 0
    assert len(ranked.results) == 3
    assert len(client.rerank(QUESTION, ["a", "b"], top_n=1).results) == 1
    kept = client.compress(QUESTION, PORT, budget=Budget(0.5, "ratio"))
    assert [item.id for item in kept.results] == ["depth", "boats", "bread"]
    assert 0 < kept.tokens_after <= kept.tokens_before / 2


def test_corpora(client: Client) -> None:
    assert client.put_corpus("port", PORT[:2]).added == 2
    assert client.add_documents("port", [*PORT[2:], {"id": "boats", "text": "Boats are red."}]).replaced == 1
    assert client.corpus("port").ids == ["depth", "boats", "bread"]
    assert client.search("port", QUESTION, top_n=1, budget="50%").results[0].id == "depth"
    assert client.delete_documents("port", ["bread", "nope"]).unknown == ["nope"]
    assert [(item.name, item.documents) for item in client.corpora()] == [("port", 2)]
    assert client.delete_corpus("port").documents == 2
    for name in ("port", "..", "a/b", "Ä"):
        with pytest.raises(ServiceError) as failed:
            client.corpus(name)
        assert failed.value.status in (404, 422)


def test_the_async_client_gives_the_same(service: tuple[str, str, str], client: Client) -> None:
    async def ask() -> None:
        async with AsyncClient(*service[:2], timeout=600) as other:
            answers = await asyncio.gather(*(other.context(QUESTION, PORT, top_n=n) for n in (1, 2, 3)))
            assert [len(answer.results) for answer in answers] == [1, 2, 3]
            ranked = await other.rerank(QUESTION, PORT)
            assert [item.index for item in ranked.results] == [i.index for i in client.rerank(QUESTION, PORT).results]
            assert (await other.compress(QUESTION, PORT)).tokens_before > 20
            assert (await other.put_corpus("sea", PORT)).added == 3
            assert (await other.add_documents("sea", PORT[:1])).replaced == 1
            assert (await other.search("sea", QUESTION, top_n=1)).results[0].id == "depth"
            assert (await other.delete_documents("sea", ["bread"])).deleted == 1
            assert len((await other.corpus("sea")).ids) == 2
            assert [item.name for item in await other.corpora()] == ["sea"]
            assert (await other.delete_corpus("sea")).documents == 2
            with pytest.raises(ServiceError, match="422 invalid_input: top_n: must be at least 1"):
                await other.context(QUESTION, PORT, top_n=0)

    asyncio.run(ask())


def test_errors_say_what_the_service_says(service: tuple[str, str, str], client: Client) -> None:
    with pytest.raises(ServiceError) as failed:
        client.context(QUESTION, PORT, top_n=0)
    error = failed.value
    assert (error.status, error.reason, error.param) == (422, "invalid_input", "top_n")
    assert error.message == "top_n: must be at least 1, given 0"
    assert error.request_id
    assert error.request_id in str(error)
    with pytest.raises(ServiceError) as failed:
        client.rerank(QUESTION, [])
    assert (failed.value.status, failed.value.reason, failed.value.param) == (400, "BadRequestError", "documents")
    with Client(service[0], "wrong") as stranger, pytest.raises(ServiceError, match="401 unauthorized"):
        stranger.context(QUESTION, PORT)
    with Client(*service[:2], timeout=0.001) as hasty, pytest.raises(ServiceError) as failed:
        hasty.context(QUESTION, PORT)
    # Where the machine is so slow that not even the refusal comes in time, the client itself gives up.
    assert (failed.value.status, failed.value.reason) in ((504, "deadline_exceeded"), (None, "timeout"))
    with Client("http://127.0.0.1:9") as lost, pytest.raises(ServiceError, match="unreachable") as failed:
        lost.corpora()
    assert failed.value.status is None


def test_what_is_no_input_is_refused_before_it_is_sent(client: Client) -> None:
    for call in (
        lambda: client.context(QUESTION, "one text"),
        lambda: client.context("\ud800", []),
        lambda: client.context(QUESTION, [{"text": "a", "metadata": {"n": float("nan")}}]),
        lambda: Client(timeout=0),
        lambda: Client(retries=-1),
    ):
        with pytest.raises(InputError):
            call()


def test_a_429_is_waited_for_as_the_service_says(service: tuple[str, str, str]) -> None:
    url, _, slow = service
    with Client(url, slow, retries=0) as once, pytest.raises(ServiceError) as failed:
        _exhaust(once)
    assert (failed.value.status, failed.value.reason) == (429, "rate_limited")
    with Client(url, slow) as patient:
        assert patient.corpora() == []


def _exhaust(client: Client) -> None:
    for _ in range(1000):
        client.corpora()


class _Proxy(BaseHTTPRequestHandler):
    """What stands before a service may answer with anything."""

    def do_GET(self) -> None:
        self.send_response(502, "Bad Gateway")
        self.end_headers()
        self.wfile.write(b"<html>upstream is down</html>")

    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"results": 5}')

    def log_message(self, *_: object) -> None:
        pass


def test_an_answer_that_is_not_of_the_service_is_an_error() -> None:
    with HTTPServer(("127.0.0.1", 0), _Proxy) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        with Client(f"http://127.0.0.1:{proxy.server_port}") as client:
            with pytest.raises(ServiceError, match="502 http_error: Bad Gateway: '<html>upstream is down") as failed:
                client.corpora()
            assert failed.value.status == 502
            with pytest.raises(ServiceError, match="unexpected_answer: /v1/context gave no ContextResponse"):
                client.context(QUESTION, PORT)
        proxy.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "after", "attempt", "least", "most"),
    [
        (429, "2", 1, 2.0, 2.2),
        (429, None, 1, 0.5, 0.55),
        (429, None, 3, 2.0, 2.2),
        (429, "soon", 2, 1.0, 1.1),
        (429, "61", 1, None, None),
        (429, "1", 4, None, None),
        (503, "1", 1, None, None),
    ],
)
def test_when_to_ask_again(
    status: int, after: str | None, attempt: int, least: float | None, most: float | None
) -> None:
    answer = httpx.Response(status, headers={"Retry-After": after} if after else {})
    pause = Connection("http://a", None, 60, 3).pause(answer, attempt)
    if least is None or most is None:
        assert pause is None
    else:
        assert pause is not None
        assert least <= pause <= most


def test_a_date_to_come_back_at_is_counted_from_now() -> None:
    answer = httpx.Response(429, headers={"Retry-After": formatdate(time() + 30, usegmt=True)})
    pause = Connection("http://a", None, 60, 3).pause(answer, 1)
    assert pause is not None
    assert 25 <= pause <= 33


def test_importing_it_loads_no_torch_and_no_server() -> None:
    code = "import sys, rag.client; print(sorted({'torch', 'transformers', 'fastapi'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
