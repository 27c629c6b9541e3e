"""One service over the real models for the whole session, and stages that wait or fail on purpose."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from starlette.testclient import TestClient

from rag.api.app import create_app
from rag.config import Settings
from rag.pipeline import Pipeline
from rag.registry import register
from rag.types import Document, Query, ScoredDocument

HARBOUR: list[dict[str, Any]] = [
    {
        "id": "depth",
        "title": "Harbour",
        "text": "The quay was built in 1871. The harbour is fourteen metres deep at low tide. Gulls nest on its wall.",
        "metadata": {"page": 3, "source": None},
    },
    {"id": "empty", "text": "  "},
    {"id": "boats", "text": "Boats are painted blue every spring. The paint comes from the town."},
    {"id": "bread", "text": "Bread is baked before dawn. The baker sleeps at noon."},
]


@pytest.fixture(scope="session")
def settings() -> Settings:
    return Settings(
        limits={"documents": 12, "query_tokens": 40, "document_characters": 20_000, "total_characters": 50_000},
        server={"max_body_bytes": 100_000},
    )


@pytest.fixture(scope="session")
def pipeline(settings: Settings) -> Pipeline:
    return Pipeline(settings)


@pytest.fixture(scope="session")
def client(pipeline: Pipeline) -> Iterator[TestClient]:
    with TestClient(create_app(pipeline=pipeline), raise_server_exceptions=False) as client:
        # A request waits its turn behind the loading of the models.
        assert client.post("/v1/context", json={"query": "ready?", "documents": []}).status_code == 200
        assert client.get("/health").json()["status"] == "ready"
        yield client


class _OddRetriever:
    """A real stage over any corpus; subclasses decide what goes on while it works."""

    documents: tuple[Document, ...] = ()

    def index(self, documents: Sequence[Document]) -> _OddRetriever:
        made = type(self)()
        made.documents = tuple(documents)
        return made

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[ScoredDocument]]:
        return [
            [ScoredDocument(item, self.score(query, item), rank) for rank, item in enumerate(self.documents[:k], 1)]
            for query in queries
        ]

    def score(self, query: Query, document: Document) -> float:
        raise NotImplementedError


@register("retriever", "test-gated")
class Gated(_OddRetriever):
    """Works only while its gate is open, and notes the queries it began with."""

    gate = threading.Event()
    began: list[str] = []  # noqa: RUF012

    @classmethod
    def shut(cls) -> None:
        cls.gate.clear()
        cls.began.clear()

    def score(self, query: Query, document: Document) -> float:  # noqa: ARG002
        self.began.append(query.text)
        assert self.gate.wait(60)
        return 1.0


@register("retriever", "test-nan")
class NotANumber(_OddRetriever):
    def score(self, query: Query, document: Document) -> float:  # noqa: ARG002
        return float("nan")


@register("retriever", "test-crash")
class Crash(_OddRetriever):
    def score(self, query: Query, document: Document) -> float:
        raise ZeroDivisionError(f"{query.text} over {document.text}")


@pytest.fixture
def gated() -> Iterator[type[Gated]]:
    Gated.gate.set()
    yield Gated
    Gated.gate.set()


@pytest.fixture
def with_retriever(client: TestClient, pipeline: Pipeline) -> Any:
    """Make a pipeline of one retriever alone, over the engine that is loaded already."""
    assert client

    def make(name: str, **server: Any) -> Pipeline:
        only = Settings(retriever=name, reranker=None, compressor=None, ordering=None, server=server)
        return Pipeline(only, engine=pipeline.engine)

    return make


@pytest.fixture
def harbour() -> list[dict[str, Any]]:
    return [dict(document) for document in HARBOUR]
