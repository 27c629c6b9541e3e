"""What the two clients share: the calls as data, how an answer is read, and when to ask again."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from rag.api.corpora_schemas import CorporaReply, CorpusChangeReply, CorpusContentReply, CorpusReply
from rag.api.faces.schemas import CompressResponse, JinaResponse
from rag.api.schemas import ContextResponse
from rag.budget import Budget
from rag.client.errors import ServiceError
from rag.errors import InputError
from rag.types import Document

Reply = TypeVar("Reply", bound=BaseModel)
Documents = Iterable[str | Document | Mapping[str, Any]]
"""Passages: texts, `Document` values, or mappings with ``text`` and optionally ``id``, ``title`` and ``metadata``."""
Bound = int | float | str | Budget
"""A budget as the service takes it: 512, "50%", or a `Budget`."""

# The service is told the timeout, and its answer that the time is over still has to arrive.
_GRACE_SECONDS = 2.0
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 60.0
_CORPORA = "/v1/corpora"


@dataclass(frozen=True, slots=True)
class Call(Generic[Reply]):
    """One request to the service, and what its answer is."""

    method: str
    path: str
    reply: type[Reply]
    body: dict[str, Any] | None = None

    def request(self) -> dict[str, Any]:
        """Keyword arguments of httpx's ``request``.

        Raises:
            InputError: the body holds what JSON cannot carry.
        """
        if self.body is None:
            return {"method": self.method, "url": self.path}
        try:
            content = json.dumps(self.body, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, TypeError) as error:
            raise InputError(f"{self.method} {self.path}: the body cannot be written as JSON: {error}") from None
        headers = {"Content-Type": "application/json"}
        return {"method": self.method, "url": self.path, "content": content, "headers": headers}


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the service is and how it is asked; the arguments are those of `rag.client.Client`.

    Raises:
        InputError: a timeout that is not above 0, or a negative number of retries.
    """

    base_url: str
    api_key: str | None
    timeout: float
    retries: int

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise InputError(f"timeout must be above 0 seconds, given {self.timeout}")
        if self.retries < 0:
            raise InputError(f"retries must be at least 0, given {self.retries}")

    def options(self) -> dict[str, Any]:
        """Keyword arguments of httpx's clients."""
        headers = {"X-Request-Timeout": f"{self.timeout:g}"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return {"base_url": self.base_url, "headers": headers, "timeout": self.timeout + _GRACE_SECONDS}

    def pause(self, answer: httpx.Response, attempt: int) -> float | None:
        """Seconds to wait before asking again after ``attempt`` tries; None where that is of no use.

        Only 429 is asked again, since nothing was done then; not where ``Retry-After`` is above a minute.
        """
        if answer.status_code != 429 or attempt > self.retries:
            return None
        seconds = _retry_after(answer.headers.get("retry-after"))
        if seconds is None:
            seconds = _FIRST_PAUSE * 2.0 ** (attempt - 1)
        # A little later each, so that those who were refused together do not come back together.
        return None if seconds > _LONGEST_PAUSE else seconds * random.uniform(1.0, 1.1)


def read(call: Call[Reply], answer: httpx.Response) -> Reply:
    """What the service answered.

    Raises:
        ServiceError: it refused or failed, or the answer is not what this version of the client knows.
    """
    if not answer.is_success:
        raise ServiceError.of(answer)
    try:
        return call.reply.model_validate_json(answer.content)
    except ValidationError as error:
        raise ServiceError(
            f"{call.path} gave no {call.reply.__name__}: {error.errors()[0]['msg']}",
            status=answer.status_code,
            reason="unexpected_answer",
            request_id=answer.headers.get("x-request-id"),
        ) from None


def context(query: str, documents: Documents, **options: Any) -> Call[ContextResponse]:
    """``POST /v1/context``."""
    return _post("/v1/context", ContextResponse, query=query, documents=_documents(documents), **options)


def rerank(query: str, documents: Documents, top_n: int | None) -> Call[JinaResponse]:
    """``POST /v1/rerank``. Titles are put before the texts, as every stage reads them."""
    texts = [_full_text(document) for document in _documents(documents)]
    return _post("/v1/rerank", JinaResponse, query=query, documents=texts, top_n=top_n, return_documents=False)


def compress(query: str, documents: Documents, **options: Any) -> Call[CompressResponse]:
    """``POST /v1/compress``."""
    return _post("/v1/compress", CompressResponse, query=query, documents=_documents(documents), **options)


def corpora() -> Call[CorporaReply]:
    """``GET /v1/corpora``."""
    return Call("GET", _CORPORA, CorporaReply)


def corpus(name: str) -> Call[CorpusContentReply]:
    """``GET /v1/corpora/{name}``."""
    return Call("GET", _corpus(name), CorpusContentReply)


def put_corpus(name: str, documents: Documents) -> Call[CorpusChangeReply]:
    """``PUT /v1/corpora/{name}``."""
    return Call("PUT", _corpus(name), CorpusChangeReply, {"documents": _documents(documents)})


def delete_corpus(name: str) -> Call[CorpusReply]:
    """``DELETE /v1/corpora/{name}``."""
    return Call("DELETE", _corpus(name), CorpusReply)


def add_documents(name: str, documents: Documents) -> Call[CorpusChangeReply]:
    """``POST /v1/corpora/{name}/documents``."""
    return _post(f"{_corpus(name)}/documents", CorpusChangeReply, documents=_documents(documents))


def delete_documents(name: str, ids: Sequence[str]) -> Call[CorpusChangeReply]:
    """``DELETE /v1/corpora/{name}/documents``."""
    return Call("DELETE", f"{_corpus(name)}/documents", CorpusChangeReply, {"ids": list(ids)})


def search(name: str, query: str, **options: Any) -> Call[ContextResponse]:
    """``POST /v1/corpora/{name}/search``."""
    return _post(f"{_corpus(name)}/search", ContextResponse, query=query, **options)


def _post(path: str, reply: type[Reply], **fields: Any) -> Call[Reply]:
    """A POST of the fields that are not None."""
    budget = fields.get("budget")
    if isinstance(budget, Budget):
        fields["budget"] = {"amount": budget.amount, "unit": budget.unit}
    return Call("POST", path, reply, {name: value for name, value in fields.items() if value is not None})


def _corpus(name: str) -> str:
    # A name of dots alone would be taken for a step in the path.
    return f"{_CORPORA}/{quote(name, safe='').replace('.', '%2E')}"


def _documents(documents: Documents) -> list[Any]:
    if isinstance(documents, str | Mapping):
        raise InputError(f"documents must be a list, got one {type(documents).__name__} (put it in a list)")
    return [_plain(document) for document in documents]


def _plain(document: str | Document | Mapping[str, Any]) -> Any:
    if not isinstance(document, Document):
        return document if isinstance(document, str) else dict(document)
    fields = {"id": document.id, "text": document.text}
    return (
        fields
        | ({"title": document.title} if document.title else {})
        | ({"metadata": dict(document.metadata)} if document.metadata else {})
    )


def _full_text(document: Any) -> Any:
    """Title and text of a document as one string; what is no document is left for the service to refuse."""
    if not isinstance(document, dict):
        return document
    text, title = document.get("text"), document.get("title")
    return f"{title}\n{text}" if title and text is not None else text


def _retry_after(given: str | None) -> float | None:
    """The seconds of a ``Retry-After`` header, which may be a date; None where it is none."""
    if given is None:
        return None
    try:
        return max(0.0, float(given)) if given.strip().isdecimal() else _seconds_until(given)
    except (ValueError, TypeError):
        return None


def _seconds_until(date: str) -> float:
    return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
