"""OpenAI's face: ``POST /v1/embeddings`` for the dense model, ``GET /v1/models``."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from rag.api.body import StrictRoute
from rag.api.connection import TIMED, timeout_of, while_connected
from rag.api.errors import ApiError
from rag.api.faces.ranking import json_reply, model_of
from rag.api.faces.schemas import (
    EmbeddingItem,
    EmbeddingsRequest,
    EmbeddingsResponse,
    ModelCard,
    ModelsResponse,
    TokensUsed,
)
from rag.api.faces.shapes import OPENAI, responses_of
from rag.api.tickets import Ticket
from rag.checks import check_count, check_limits
from rag.corpus import as_documents
from rag.models import public_name

if TYPE_CHECKING:
    from rag.api.service import ContextService
    from rag.embedding import Matrix
    from rag.pipeline import Pipeline

router = APIRouter(route_class=StrictRoute)


@router.post(
    "/v1/embeddings",
    response_model=EmbeddingsResponse,
    responses=responses_of(OPENAI, 400, 401, 403, 413, 415, 422, 429, 500, 503, 504),
    openapi_extra=TIMED,
    summary="Embed texts (OpenAI)",
)
async def embeddings(body: EmbeddingsRequest, request: Request) -> Response:
    """Unit vectors of the dense retriever's model. A text above its window is the mean of its parts, none is cut."""
    service: ContextService = request.app.state.service
    texts = [body.input] if isinstance(body.input, str) else body.input
    limits = service.pipeline.settings.limits
    check_count(len(texts), limits.documents)
    _check(texts)
    check_limits(as_documents(texts), limits)

    def embed(pipeline: Pipeline) -> tuple[Matrix, int]:
        embedder = pipeline.resources.embedder()
        if body.dimensions not in (None, embedder.dimension):
            raise ApiError(
                422, f"dimensions is {body.dimensions}; accepted: {embedder.dimension}, or none", param="dimensions"
            )
        return embedder.encode(texts), sum(embedder.token_counts(texts))

    finished = await while_connected(request, service.run(embed, Ticket(timeout_of(request))))
    vectors, tokens = finished.value
    reply = EmbeddingsResponse(
        data=[
            EmbeddingItem(index=index, embedding=_base64(row) if body.encoding_format == "base64" else row.tolist())
            for index, row in enumerate(vectors)
        ],
        model=public_name(service.pipeline.settings.embedder),
        usage=TokensUsed(prompt_tokens=tokens, total_tokens=tokens),
    )
    return json_reply(reply)


@router.get(
    "/v1/models",
    response_model=ModelsResponse,
    responses=responses_of(OPENAI, 401, 403, 429),
    summary="The models that are served (OpenAI)",
)
async def models(request: Request) -> Response:
    """The model that ranks and the one that embeds. `model` in a request may be any name: these answer."""
    settings = request.app.state.service.pipeline.settings
    names = dict.fromkeys((model_of(request), public_name(settings.embedder)))
    return json_reply(ModelsResponse(data=[ModelCard(id=name) for name in names]))


def _check(texts: Sequence[str]) -> None:
    if not texts:
        raise ApiError(400, "input is empty; accepted: at least 1 text", code="no_documents", param="input")
    for index, text in enumerate(texts):
        if not text.strip():
            raise ApiError(
                400,
                f"input[{index}] is empty; accepted: text with a character that is not white space",
                code="empty_input",
                param=f"input[{index}]",
            )


def _base64(row: Matrix) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode("ascii")
