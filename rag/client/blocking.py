"""The blocking client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeVar

import httpx
from pydantic import BaseModel

from rag.api.corpora_schemas import CorpusChangeReply, CorpusContentReply, CorpusReply
from rag.api.faces.schemas import CompressResponse, JinaResponse
from rag.api.schemas import ContextResponse
from rag.client import calls
from rag.client.calls import Bound, Call, Connection, Documents
from rag.client.errors import ServiceError

Reply = TypeVar("Reply", bound=BaseModel)


class Client:
    """A client of one service. Safe for use by several threads; use it as a context manager, or `close` it.

    Args:
        base_url: where the service listens.
        api_key: sent as a bearer token, where the service has keys.
        timeout: seconds that one answer may take. The service is told, and does not work on longer.
        retries: how often a request is sent again that was refused with 429, each time after the seconds that the
            service names.

    Every method raises `ServiceError` where the service refuses, fails or cannot be reached, with its status and
    what it says is accepted. Replies are the service's own schemas, immutable.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8484",
        api_key: str | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> None:
        self._connection = Connection(base_url, api_key, timeout, retries)
        self._http = httpx.Client(**self._connection.options())

    def context(
        self,
        query: str,
        documents: Documents,
        *,
        top_n: int | None = None,
        budget: Bound | None = None,
        retrieve_k: int | None = None,
        return_text: bool = True,
        return_sentences: bool = True,
    ) -> ContextResponse:
        """Rank, compress and order passages for a question (``POST /v1/context``)."""
        return self._ask(
            calls.context(
                query,
                documents,
                top_n=top_n,
                budget=budget,
                retrieve_k=retrieve_k,
                return_text=return_text,
                return_sentences=return_sentences,
            )
        )

    def rerank(self, query: str, documents: Documents, *, top_n: int | None = None) -> JinaResponse:
        """Rank passages, best first; all of them where ``top_n`` is None (``POST /v1/rerank``)."""
        return self._ask(calls.rerank(query, documents, top_n))

    def compress(
        self, query: str, documents: Documents, *, budget: Bound | None = None, return_sentences: bool = False
    ) -> CompressResponse:
        """Keep what answers the question, of all passages in their order (``POST /v1/compress``)."""
        return self._ask(calls.compress(query, documents, budget=budget, return_sentences=return_sentences))

    def corpora(self) -> list[CorpusReply]:
        """The stored corpora."""
        return self._ask(calls.corpora()).corpora

    def corpus(self, name: str) -> CorpusContentReply:
        """A stored corpus and the ids of its documents."""
        return self._ask(calls.corpus(name))

    def put_corpus(self, name: str, documents: Documents) -> CorpusChangeReply:
        """Make or replace a corpus; every document needs an id."""
        return self._ask(calls.put_corpus(name, documents))

    def delete_corpus(self, name: str) -> CorpusReply:
        """Delete a corpus; returns what it was."""
        return self._ask(calls.delete_corpus(name))

    def add_documents(self, name: str, documents: Documents) -> CorpusChangeReply:
        """Add documents to a corpus, in place of those with the same ids."""
        return self._ask(calls.add_documents(name, documents))

    def delete_documents(self, name: str, ids: Sequence[str]) -> CorpusChangeReply:
        """Delete documents from a corpus by their ids."""
        return self._ask(calls.delete_documents(name, ids))

    def search(
        self,
        name: str,
        query: str,
        *,
        top_n: int | None = None,
        budget: Bound | None = None,
        retrieve_k: int | None = None,
        return_text: bool = True,
        return_sentences: bool = True,
    ) -> ContextResponse:
        """As `context`, over a stored corpus (``POST /v1/corpora/{name}/search``)."""
        return self._ask(
            calls.search(
                name,
                query,
                top_n=top_n,
                budget=budget,
                retrieve_k=retrieve_k,
                return_text=return_text,
                return_sentences=return_sentences,
            )
        )

    def close(self) -> None:
        """End the connections; the client is of no use afterwards."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, call: Call[Reply]) -> Reply:
        attempt = 1
        while True:
            try:
                answer = self._http.request(**call.request())
            except httpx.RequestError as error:
                raise ServiceError.without_answer(error, self._http.base_url) from error
            pause = self._connection.pause(answer, attempt)
            if pause is None:
                return calls.read(call, answer)
            time.sleep(pause)
            attempt += 1
