"""The face of Jina and vLLM: ``POST /v1/rerank``, and ``POST /rerank``, which is TEI's for bodies with ``texts``.

That ``return_documents`` is true by default is what vLLM does, and Jina as far as is known (UNVERIFIED for its newest
models).
"""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from rag.api.body import StrictRoute
from rag.api.connection import TIMED
from rag.api.errors import request_id
from rag.api.faces import tei
from rag.api.faces.ranking import Ranking, json_reply, model_of, ranker_of
from rag.api.faces.schemas import JinaRequest, JinaResponse, JinaResult, JinaText, TeiRequest, TeiResult, TokensUsed
from rag.api.faces.shapes import TEI, VLLM, responses_of

Model = TypeVar("Model", bound=BaseModel)

router = APIRouter(route_class=StrictRoute)

_RESPONSES = responses_of(VLLM, 400, 401, 403, 413, 415, 422, 429, 500, 503, 504)
_BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"anyOf": [{"$ref": "#/components/schemas/JinaRequest"}, TeiRequest.model_json_schema()]}
        }
    },
}


@router.post(
    "/v1/rerank",
    response_model=JinaResponse,
    responses=_RESPONSES,
    openapi_extra=TIMED,
    summary="Rank documents (Jina, vLLM)",
)
async def rerank(body: JinaRequest, request: Request) -> Response:
    """Rank documents for a query as Jina's and vLLM's APIs do, by the model that is served.

    `relevance_score` never rises from one result to the next. It is the calibrated probability where the service's
    reranker gives one, else the logistic function of its score. Fields that are not known are ignored, and `warnings`
    names them.
    """
    texts = [document.text for document in body.documents]
    ranking = await ranker_of(request).rank(request, body.query, texts, body.top_n)
    with_text = body.return_documents is not False
    reply = JinaResponse(
        id=request_id(request.scope),
        model=model_of(request),
        usage=TokensUsed(prompt_tokens=ranking.tokens, total_tokens=ranking.tokens),
        results=[
            JinaResult(
                index=text.index,
                relevance_score=text.relevance,
                document=JinaText(text=texts[text.index]) if with_text else None,
            )
            for text in ranking.texts
        ],
        warnings=warnings(body.not_read(), ranking),
    )
    return json_reply(reply)


@router.post(
    "/rerank",
    response_model=JinaResponse | list[TeiResult],
    responses={status: {**told, "model": VLLM.model | TEI.model} for status, told in _RESPONSES.items()}
    | responses_of(TEI, 500),
    openapi_extra=TIMED | {"requestBody": _BODY},
    summary="Rank documents (Jina, vLLM) or texts (TEI)",
)
async def rerank_either(request: Request) -> Response:
    """As `/v1/rerank` for a body with `documents`; as Text Embeddings Inference for one with `texts`, errors too.

    Until the body has been read, errors have the former's shape.
    """
    body = await request.json()
    if isinstance(body, dict) and "texts" in body:
        request.scope["state"]["error_shape"] = TEI
        return await tei.rerank(_validated(TeiRequest, body), request)
    return await rerank(_validated(JinaRequest, body), request)


def warnings(ignored: list[str], ranking: Ranking) -> list[str] | None:
    """What to tell beside the ranking; None for nothing."""
    unread = [f"ignored, not known: {', '.join(name[:80] for name in ignored[:10])}"] if ignored else []
    return [*unread, *ranking.warnings()] or None


def _validated(model: type[Model], body: Any) -> Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        problems = [{**problem, "loc": ("body", *problem["loc"])} for problem in error.errors()]
        raise RequestValidationError(problems, body=body) from None
