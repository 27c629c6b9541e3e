"""vLLM's face for scores: ``POST /v1/score`` and ``POST /score``, in the order of the request."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request, Response

from rag.api.body import StrictRoute
from rag.api.connection import TIMED
from rag.api.errors import ApiError, request_id
from rag.api.faces.jina import warnings
from rag.api.faces.ranking import json_reply, model_of, ranker_of
from rag.api.faces.schemas import ScoreItem, ScoreRequest, ScoreResponse, TokensUsed
from rag.api.faces.shapes import VLLM, responses_of

router = APIRouter(route_class=StrictRoute)

_ROUTE: dict[str, Any] = {
    "response_model": ScoreResponse,
    "responses": responses_of(VLLM, 400, 401, 403, 413, 415, 422, 429, 500, 503, 504),
    "openapi_extra": TIMED,
    "summary": "Score texts (vLLM)",
}


@router.post("/v1/score", **_ROUTE)
@router.post("/score", **_ROUTE)
async def score(body: ScoreRequest, request: Request) -> Response:
    """Score texts for one query, each against the others. Pairs (several queries) are refused: scores are relative."""
    queries = [body.text_1] if isinstance(body.text_1, str) else body.text_1
    texts = [body.text_2] if isinstance(body.text_2, str) else body.text_2
    if len(queries) != 1:
        raise ApiError(
            422,
            f"text_1 holds {len(queries)} queries; accepted: 1, since scores compare the texts of one query",
            param="text_1",
        )
    ranking = await ranker_of(request).rank(request, queries[0], texts, field="text_2")
    reply = ScoreResponse(
        id=request_id(request.scope),
        created=int(time.time()),
        model=model_of(request),
        data=[
            ScoreItem(index=text.index, score=text.relevance)
            for text in sorted(ranking.texts, key=lambda text: text.index)
        ],
        usage=TokensUsed(prompt_tokens=ranking.tokens, total_tokens=ranking.tokens),
        warnings=warnings(body.ignored(), ranking),
    )
    return json_reply(reply)
