"""``POST /v1/explain``: the tokens and heads that the attention score of one document is the sum of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field, ValidationError

from rag.api.body import StrictRoute
from rag.api.connection import TIMED, timeout_of, while_connected
from rag.api.errors import ApiError, ErrorResponse, request_id
from rag.api.examples import error_responses
from rag.api.fields import NOT_EMPTY, Natural, Question
from rag.api.schemas import Characters, DocumentInput, Reply, StrictModel
from rag.api.tickets import Ticket
from rag.checks import as_query, check_limits, check_query_tokens, check_read_tokens, full_text
from rag.corpus import as_documents
from rag.errors import ModelOutputError
from rag.models import public_name
from rag.types import Document, Query

if TYPE_CHECKING:
    from rag.api.service import ContextService
    from rag.pipeline import Pipeline
    from rag.rerankers.explain import Explained

MOST_DOCUMENTS = 50
"""How many documents may compete in one explanation, whatever the service's own limit."""

router = APIRouter(route_class=StrictRoute)


class ExplainRequest(StrictModel):
    """A question, the documents that competed for its attention, and which of them to explain."""

    query: Question
    documents: list[DocumentInput] = Field(
        description=f"All that were ranked together, 1 to {MOST_DOCUMENTS}: a score depends on its competitors.",
        json_schema_extra=NOT_EMPTY | {"maxItems": MOST_DOCUMENTS},
    )
    index: Natural = Field(default=0, description="Position in `documents` of the one to explain.")


class TokenReply(Reply):
    """What one token adds to the score."""

    span: Characters = Field(description="`[start, end)` in Unicode code points of the document's text.")
    value: float


class HeadReply(Reply):
    """What one attention head adds to the score."""

    head: str = Field(description="layer-head, both from 0.")
    value: float


class ExplainResponse(Reply):
    """One document's attention score, as a sum over heads and as a sum over tokens."""

    id: str = Field(description="The request id, as in the X-Request-Id header.")
    model: str = Field(description="The attention model.")
    document: str = Field(description="The document's id.")
    index: int
    score: float = Field(description="The sum of `heads`; also of `tokens` and `outside`.")
    outside: float = Field(description="What the tokens of the title and of the template add.")
    window: Characters = Field(description="The part of the text that was read: all, but for a long document.")
    windows: int = Field(description="In how many parts the document was read; `window` is the one that decides.")
    heads: tuple[HeadReply, ...] = Field(description="By what they add, most first.")
    tokens: tuple[TokenReply, ...] = Field(description="In text order.")


@router.post(
    "/v1/explain",
    response_model=ExplainResponse,
    responses=error_responses(ErrorResponse, 400, 401, 403, 413, 415, 422, 429, 500, 503, 504),
    openapi_extra=TIMED,
    summary="Take the attention score of a document apart",
)
async def explain(body: ExplainRequest, request: Request) -> Response:
    """Which tokens and heads made the score: the calibrated attention of the reranker's heads, before its own norms."""
    service: ContextService = request.app.state.service
    query, documents = as_query(body.query), _documents(body)
    check_limits(documents, service.pipeline.settings.limits)

    finished = await while_connected(
        request,
        service.run(lambda pipeline: _explained(pipeline, query, documents, body.index), Ticket(timeout_of(request))),
    )
    found = finished.value
    try:
        reply = ExplainResponse(
            id=request_id(request.scope),
            model=public_name(service.pipeline.settings.model),
            document=found.id,
            index=body.index,
            score=found.score,
            outside=sum(token.value for token in found.tokens if token.span is None),
            window=(found.window.start, found.window.end),
            windows=found.windows,
            heads=tuple(HeadReply(head=str(share.head), value=share.value) for share in found.heads),
            tokens=tuple(
                TokenReply(span=(item.span.start, item.span.end), value=item.value)
                for item in found.tokens
                if item.span is not None
            ),
        )
    except ValidationError:
        raise ModelOutputError("the model gave an attention that is not a finite number") from None
    return Response(reply.model_dump_json(), media_type="application/json")


def _documents(body: ExplainRequest) -> list[Document]:
    count = len(body.documents)
    if not 1 <= count <= MOST_DOCUMENTS:
        raise ApiError(422, f"documents has {count} entries; accepted: 1 to {MOST_DOCUMENTS}", param="documents")
    if body.index >= count:
        raise ApiError(
            422, f"index is {body.index}; accepted: 0 to {count - 1}, a position in documents", param="index"
        )
    return as_documents([document.document(position) for position, document in enumerate(body.documents)])


def _explained(pipeline: Pipeline, query: Query, documents: Sequence[Document], index: int) -> Explained:
    """As ``rag explain``: with the reranker's heads, or the model's document heads where it reads none."""
    from rag.rerankers.explain import explain as take_apart

    engine: Any = pipeline.engine
    limits = pipeline.settings.limits
    query_tokens, *tokens = engine.count_tokens([query.full_text, *map(full_text, documents)])
    check_query_tokens(query_tokens, limits)
    check_read_tokens(sum(tokens), "explain", limits)
    specs = pipeline.specs()
    heads = specs[0].heads if specs else engine.default_heads("document")
    return take_apart(engine, query, documents, heads).documents[index]
