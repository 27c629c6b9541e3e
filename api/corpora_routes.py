"""Routes of stored corpora: ``/v1/corpora``. Searching one gives what ``/v1/context`` gives over the same documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Path, Request, Response

from rag.api.body import route_needing
from rag.api.connection import STREAMED, TIMED, timeout_of, wants_events, while_connected
from rag.api.corpora import Change, Corpora, StoredCorpus
from rag.api.corpora_files import NAME, check_name
from rag.api.corpora_schemas import (
    CorporaReply,
    CorpusChangeReply,
    CorpusContentReply,
    CorpusReply,
    DocumentIds,
    SearchRequest,
    StoredDocuments,
)
from rag.api.errors import ApiError, ErrorResponse, request_id
from rag.api.examples import error_responses
from rag.api.keys import check_corpus
from rag.api.schemas import ContextResponse
from rag.api.streaming import stream
from rag.api.tickets import Ticket
from rag.checks import as_query
from rag.corpus import as_documents
from rag.models import public_name
from rag.types import Document

if TYPE_CHECKING:
    from fastapi.params import Depends as Dependency

    from rag.api.service import ContextService
    from rag.request import OnStage

T = TypeVar("T")

reading = APIRouter(route_class=route_needing("corpora:read"))
writing = APIRouter(route_class=route_needing("corpora:write"))

_Responses = dict[int | str, dict[str, Any]]
_NOT_OFFERED: _Responses = {501: {"model": ErrorResponse, "description": "The service has several worker processes."}}
_GUARDED = error_responses(ErrorResponse, 401, 403, 429, 500) | _NOT_OFFERED
_REFUSED = _GUARDED | error_responses(ErrorResponse, 422)
_REFUSED_BODY = _REFUSED | error_responses(ErrorResponse, 400, 413, 415)
_MISSING: _Responses = {404: {"model": ErrorResponse, "description": "There is no such corpus."}}
_MADE: _Responses = {201: {"model": CorpusChangeReply, "description": "It was made."}}
_FAILED = error_responses(ErrorResponse, 503, 504)


def install(app: FastAPI, service: ContextService, dependencies: Sequence[Dependency]) -> None:
    """Add the routes, over the corpora of ``service``, loaded here where they are kept in a folder.

    Raises:
        ConfigError: as `rag.api.corpora.Corpora`.
    """
    app.state.corpora = Corpora(service.pipeline) if service.pipeline.settings.server.workers == 1 else None
    for router in (reading, writing):
        app.include_router(router, dependencies=dependencies)


async def _corpora(request: Request) -> Corpora:
    corpora: Corpora | None = request.app.state.corpora
    if corpora is None:
        workers = request.app.state.service.pipeline.settings.server.workers
        raise ApiError(
            501, f"stored corpora are in the memory of one process; server.workers is {workers}", code="not_offered"
        )
    return corpora


async def _named(
    request: Request,
    name: Annotated[
        str,
        Path(
            description="1 to 64 of a-z, 0-9, - and _; no - or _ at the start.",
            json_schema_extra={"pattern": f"^{NAME.pattern}$"},
        ),
    ],
) -> str:
    """The name in the path, which the key may use."""
    check_corpus(request, check_name(name))
    return name


All = Annotated[Corpora, Depends(_corpora)]
Name = Annotated[str, Depends(_named)]


@reading.get("/v1/corpora", response_model=CorporaReply, responses=_GUARDED, summary="The stored corpora")
async def list_corpora(corpora: All, request: Request) -> CorporaReply:
    """Those that the key may use, by name."""
    allowed = request.scope["state"]["key"].corpora
    found = [corpus for corpus in corpora.all() if allowed is None or corpus.name in allowed]
    return CorporaReply(corpora=[CorpusReply(**_told(corpus)) for corpus in found])


@reading.get(
    "/v1/corpora/{name}",
    response_model=CorpusContentReply,
    responses=_REFUSED | _MISSING,
    summary="What a stored corpus holds",
)
async def read_corpus(corpora: All, name: Name) -> CorpusContentReply:
    """Its size and the ids of its documents."""
    found = corpora.get(name)
    return CorpusContentReply(**_told(found), ids=list(found.documents))


@writing.put(
    "/v1/corpora/{name}",
    response_model=CorpusChangeReply,
    responses=_REFUSED_BODY | _MADE,
    summary="Make or replace a corpus",
)
async def put_corpus(corpora: All, name: Name, body: StoredDocuments, response: Response) -> CorpusChangeReply:
    """The corpus then holds exactly these documents. 201 where there was none of that name."""
    documents = _documents(body)
    change = await _work(lambda: corpora.put(name, documents))
    response.status_code = 201 if change.made else 200
    return _change(change)


@writing.delete(
    "/v1/corpora/{name}",
    response_model=CorpusReply,
    responses=_REFUSED | _MISSING,
    summary="Delete a corpus",
)
async def delete_corpus(corpora: All, name: Name) -> CorpusReply:
    """What it was."""
    return CorpusReply(**_told(await _work(lambda: corpora.delete(name))))


@writing.post(
    "/v1/corpora/{name}/documents",
    response_model=CorpusChangeReply,
    responses=_REFUSED_BODY | _MISSING,
    summary="Add documents to a corpus, or replace those with the same ids",
)
async def add_documents(corpora: All, name: Name, body: StoredDocuments) -> CorpusChangeReply:
    """All of them or, where a bound is passed, none. The next search embeds only what is new."""
    documents = _documents(body)
    return _change(await _work(lambda: corpora.add(name, documents)))


@writing.delete(
    "/v1/corpora/{name}/documents",
    response_model=CorpusChangeReply,
    responses=_REFUSED_BODY | _MISSING,
    summary="Delete documents from a corpus",
)
async def delete_documents(corpora: All, name: Name, body: DocumentIds) -> CorpusChangeReply:
    """Those with the given ids; `unknown` names the ids that were not there."""
    return _change(await _work(lambda: corpora.remove(name, body.ids)))


@reading.post(
    "/v1/corpora/{name}/search",
    response_model=ContextResponse,
    responses=_REFUSED_BODY | _MISSING | _FAILED | STREAMED,
    openapi_extra=TIMED,
    summary="Rank, compress and order the documents of a corpus for a question",
)
async def search(corpora: All, name: Name, body: SearchRequest, request: Request) -> Response:
    """As `/v1/context` over the corpus's documents, events too. `index` is the position in the corpus.

    `dropped` holds the candidates that were ranked, not the documents that were never retrieved.
    """
    corpus = corpora.get(name)
    query, options, timeout = as_query(body.query), body.options(), timeout_of(request)
    documents = list(corpus.documents.values())
    service: ContextService = request.app.state.service

    async def answered(on_stage: OnStage | None = None) -> bytes:
        ticket = Ticket(timeout)

        def staged(*told: object) -> None:
            ticket.check()
            if on_stage is not None:
                on_stage(*told)  # type: ignore[arg-type]

        finished = await service.run(
            lambda _: corpus.pipeline.run(
                query,
                documents,
                top_n=body.top_n,
                budget=body.budget.budget() if body.budget else None,
                retrieve_k=body.retrieve_k,
                on_stage=staged,
            ),
            ticket,
        )
        service.metrics.result(finished.value)
        ranked = tuple(item for item in finished.value.dropped if item.reason != "not_retrieved")
        reply = ContextResponse.of(
            replace(finished.value, dropped=ranked),
            options,
            id=request_id(request.scope),
            model=public_name(service.pipeline.settings.model),
            queued=finished.waited,
        )
        return reply.model_dump_json(exclude_none=True).encode()

    if wants_events(request):
        return await stream(request, {id: index for index, id in enumerate(corpus.documents)}, answered)
    return Response(await while_connected(request, answered()), media_type="application/json")


def _documents(body: StoredDocuments) -> list[Document]:
    return as_documents([document.document(index) for index, document in enumerate(body.documents)])


async def _work(change: Callable[[], T]) -> T:
    """A change in a thread: it may write a file, and it may wait for another change. Once begun, it is finished."""
    return await asyncio.shield(asyncio.to_thread(change))


def _told(corpus: StoredCorpus) -> dict[str, Any]:
    return {"name": corpus.name, "documents": len(corpus.documents), "bytes": corpus.size}


def _change(change: Change) -> CorpusChangeReply:
    return CorpusChangeReply(
        **_told(change.corpus),
        added=len(change.added),
        replaced=len(change.replaced),
        deleted=len(change.deleted),
        unknown=list(change.unknown),
    )
