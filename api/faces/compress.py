"""``POST /v1/compress``: what a reader should see of each document, all of them kept in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from rag.api.body import StrictRoute
from rag.api.connection import TIMED, timeout_of, while_connected
from rag.api.errors import ApiError, ErrorResponse, request_id
from rag.api.examples import error_responses
from rag.api.faces.ranking import json_reply, model_of
from rag.api.faces.schemas import CompressedReply, CompressRequest, CompressResponse
from rag.api.schemas import ContextRequest, SentenceReply
from rag.types import CompressedDocument, Document

if TYPE_CHECKING:
    from rag.api.service import ContextService
    from rag.results import StageTrace

router = APIRouter(route_class=StrictRoute)

_NOT_OFFERED: dict[int | str, dict[str, Any]] = {
    501: {"model": ErrorResponse, "description": "The service has no compressor."}
}


@router.post(
    "/v1/compress",
    response_model=CompressResponse,
    responses=error_responses(ErrorResponse, 400, 401, 403, 413, 415, 422, 429, 500, 503, 504) | _NOT_OFFERED,
    openapi_extra=TIMED,
    summary="Keep the sentences of documents that answer a question",
)
async def compress(body: CompressRequest, request: Request) -> Response:
    """What `/v1/context` would keep of each document if it took them all, in the order of the request."""
    service: ContextService = request.app.state.service
    if service.pipeline.settings.compressor is None:
        raise ApiError(501, "this service has no compressor (its setting compressor is null)", code="not_offered")
    given = ContextRequest.model_construct(
        query=body.query,
        documents=body.documents,
        top_n=max(1, len(body.documents)),
        budget=body.budget,
        retrieve_k=max(1, len(body.documents)),
    )
    kept: dict[str, CompressedDocument] = {}

    def note(trace: StageTrace, outcome: Sequence[Any]) -> None:
        if trace.stage == "compressor":
            kept.update((item.document.id, item) for item in outcome)

    finished = await while_connected(request, service.answer(given, timeout=timeout_of(request), on_stage=note))
    results = [
        _compressed(index, kept.get(document.id) or CompressedDocument(document, (), (), 0, 0), body.return_sentences)
        for index, document in enumerate(given.corpus())
    ]
    reply = CompressResponse(
        id=request_id(request.scope),
        model=model_of(request),
        query=body.query,
        results=results,
        tokens_before=sum(item.tokens_before for item in results),
        tokens_after=sum(item.tokens_after for item in results),
        warnings=list(finished.value.warnings),
    )
    return json_reply(reply)


def _compressed(index: int, kept: CompressedDocument, with_sentences: bool) -> CompressedReply:
    """One entry; a document that no compressor was given has no text, and nothing of it is kept."""
    document: Document = kept.document
    return CompressedReply(
        id=document.id,
        index=index,
        text=kept.text,
        spans=[(span.start, span.end) for span in kept.spans],
        tokens_before=kept.tokens_before,
        tokens_after=kept.tokens_after,
        sentences=[SentenceReply(span=item.span, score=item.score, kept=item.kept) for item in kept.sentences]
        if with_sentences
        else None,
    )
