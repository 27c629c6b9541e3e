"""Against a real HTTP server on this machine that speaks as much of the protocol as is needed."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rag.errors import ConfigError
from rag.eval.reader_endpoint import EndpointReader, ReaderError


class Service(ThreadingHTTPServer):
    """Answers with the last word of the prompt; ``failures`` are statuses that it gives first."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.failures: list[int] = []
        self.body: bytes | None = None
        self.seen: list[tuple[str, str | None, dict]] = []
        self.under_way = 0
        self.most = 0
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        service = self.server
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with service.lock:
            service.under_way += 1
            service.most = max(service.most, service.under_way)
            service.seen.append((self.path, self.headers["authorization"], request))
            status = service.failures.pop(0) if service.failures else 200
        word = request["messages"][0]["content"].split()[-1]
        answer = {
            "choices": [{"message": {"content": f"{word}.\nBecause."}}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 2},
        }
        body = service.body if service.body is not None else json.dumps(answer).encode()
        with service.lock:
            service.under_way -= 1
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    server = Service()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_answers_land_on_their_prompts(service):
    reader = EndpointReader(service.url + "/", "m", "secret", concurrency=3)
    answers = dict(reader.answers([f"word{i}" for i in range(12)]))
    assert [answers[i].text for i in range(12)] == [f"word{i}" for i in range(12)]
    assert (answers[0].tokens_in, answers[0].tokens_out) == (7, 2)
    assert service.most <= 3
    path, key, request = service.seen[0]
    assert (path, key) == ("/v1/chat/completions", "Bearer secret")
    assert (request["model"], request["temperature"], request["max_tokens"]) == ("m", 0, 32)
    assert "secret" not in json.dumps(dict(reader.identity))


def test_a_busy_service_is_asked_again(service):
    service.failures = [429, 503]
    reader = EndpointReader(service.url, "m", tries=3, pause=0.01)
    assert dict(reader.answers(["tide"]))[0].text == "tide"
    assert len(service.seen) == 3
    service.failures = [500, 500]
    with pytest.raises(ReaderError, match="answered 500"):
        list(EndpointReader(service.url, "m", tries=2, pause=0.01).answers(["tide"]))


def test_a_refusal_is_not_repeated(service):
    service.failures = [401]
    with pytest.raises(ReaderError, match="answered 401"):
        list(EndpointReader(service.url, "m", pause=0.01).answers(["tide"]))
    assert len(service.seen) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b'{"choices": []}', b'{"choices": [{"message": null}]}'])
def test_another_form_is_refused(service, body):
    service.body = body
    with pytest.raises(ReaderError, match="another form"):
        list(EndpointReader(service.url, "m").answers(["tide"]))


def test_a_service_that_is_not_there():
    with pytest.raises(ReaderError, match="cannot be reached"):
        list(EndpointReader("http://127.0.0.1:9", "m", tries=2, pause=0.01).answers(["tide"]))


def test_model_and_key_come_from_the_environment(service, monkeypatch):
    monkeypatch.delenv("RAG_READER_MODEL", raising=False)
    with pytest.raises(ConfigError, match="RAG_READER_MODEL"):
        EndpointReader(service.url)
    monkeypatch.setenv("RAG_READER_MODEL", "named")
    monkeypatch.setenv("RAG_READER_KEY", "k")
    list(EndpointReader(service.url).answers(["tide"]))
    assert service.seen[0][1:2] == ("Bearer k",)
    assert service.seen[0][2]["model"] == "named"
    with pytest.raises(ConfigError, match="http"):
        EndpointReader("localhost:8000", "m")
    with pytest.raises(ConfigError, match="tries must be at least 1, given 0"):
        EndpointReader(service.url, "m", tries=0)
