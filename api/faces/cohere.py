"""Cohere's face: ``POST /v2/rerank``. A field that is not known is refused, and no document is sent back."""

from __future__ import annotations

import math

from fastapi import APIRouter, Request, Response

from rag.api.body import StrictRoute
from rag.api.connection import TIMED
from rag.api.errors import request_id
from rag.api.faces.ranking import json_reply, model_of, ranker_of
from rag.api.faces.schemas import CohereMeta, CohereRequest, CohereResponse, CohereResult
from rag.api.faces.shapes import COHERE, responses_of

router = APIRouter(route_class=StrictRoute)

_DOCUMENTS_PER_UNIT = 100


@router.post(
    "/v2/rerank",
    response_model=CohereResponse,
    responses=responses_of(COHERE, 400, 401, 403, 413, 415, 422, 429, 500, 503, 504),
    openapi_extra=TIMED,
    summary="Rank documents (Cohere)",
)
async def rerank(body: CohereRequest, request: Request) -> Response:
    """Rank documents for a query as Cohere's API does, by the model that is served.

    `relevance_score` never rises from one result to the next. It is the calibrated probability where the service's
    reranker gives one, else the logistic function of its score.
    """
    ranking = await ranker_of(request).rank(request, body.query, body.documents, body.top_n)
    reply = CohereResponse(
        id=request_id(request.scope),
        results=[CohereResult(index=text.index, relevance_score=text.relevance) for text in ranking.texts],
        meta=CohereMeta(
            billed_units={"search_units": math.ceil(len(body.documents) / _DOCUMENTS_PER_UNIT)},
            tokens={"input_tokens": ranking.tokens, "output_tokens": 0},
            warnings=[*_not_applied(body, model_of(request)), *ranking.warnings()] or None,
        ),
    )
    return json_reply(reply)


def _not_applied(body: CohereRequest, model: str) -> list[str]:
    """What was asked for and is not done."""
    notes = {
        f"model {body.model[:80]!r} is not served: {model!r} answered": body.model != model,
        "max_tokens_per_doc is not applied: every document is read whole": body.max_tokens_per_doc is not None,
        "priority is not applied": body.priority is not None,
    }
    return [note for note, applies in notes.items() if applies]
