"""How each face's errors look on the wire, and what the OpenAPI document says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

from rag.api.errors import ErrorDetail, ErrorResponse, ErrorShape
from rag.api.examples import error_responses


class CohereError(BaseModel):
    """The body of an error of the Cohere face."""

    id: str = Field(description="The request id, as in the X-Request-Id header.")
    message: str


class OpenAIErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | int | None


class OpenAIError(BaseModel):
    """The body of an error of the faces of vLLM (``code`` is the status) and OpenAI (``code`` is a name)."""

    error: OpenAIErrorDetail


TeiErrorType = Literal["Unhealthy", "Backend", "Overloaded", "Validation", "Empty"]


class TeiError(BaseModel):
    """The body of an error of the TEI face."""

    error: str
    error_type: TeiErrorType


_VLLM_TYPES: Mapping[int, str] = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}
_OPENAI_TYPES: Mapping[int, str] = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_TEI_TYPES: Mapping[int, TeiErrorType] = {424: "Backend", 429: "Overloaded", 503: "Unhealthy", 504: "Overloaded"}


def _cohere(detail: ErrorDetail, _: int) -> dict[str, Any]:
    return CohereError(id=detail.request_id, message=detail.message).model_dump()


def _open_ai(detail: OpenAIErrorDetail) -> dict[str, Any]:
    return OpenAIError(error=detail).model_dump()


def _vllm(detail: ErrorDetail, status: int) -> dict[str, Any]:
    kind = _VLLM_TYPES.get(status, "BadRequestError" if status < 500 else "InternalServerError")
    return _open_ai(OpenAIErrorDetail(message=detail.message, type=kind, param=detail.param, code=status))


def _openai(detail: ErrorDetail, status: int) -> dict[str, Any]:
    kind = _OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return _open_ai(OpenAIErrorDetail(message=detail.message, type=kind, param=detail.param, code=detail.code))


def _tei(detail: ErrorDetail, status: int) -> dict[str, Any]:
    kind = _TEI_TYPES.get(status, "Empty" if detail.code == "no_documents" else "Validation")
    return TeiError(error=detail.message, error_type=kind).model_dump()


COHERE = ErrorShape(_cohere, CohereError)
VLLM = ErrorShape(_vllm, OpenAIError)
OPENAI = ErrorShape(_openai, OpenAIError)
# TEI says 424 where the model failed.
TEI = ErrorShape(_tei, TeiError, {500: 424})

BY_PATH: Mapping[str, ErrorShape] = {
    "/v2": COHERE,
    "/rerank": VLLM,
    "/v1/rerank": VLLM,
    "/score": VLLM,
    "/v1/score": VLLM,
    "/v1/embeddings": OPENAI,
    "/v1/models": OPENAI,
}
"""The shape of errors at and below each path; everywhere else it is the service's own."""


def responses_of(shape: ErrorShape, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route whose errors have ``shape``, each with an example."""
    out: dict[int | str, dict[str, Any]] = {}
    for status, response in error_responses(ErrorResponse, *statuses).items():
        told = shape.statuses.get(int(status), int(status))
        detail = ErrorDetail(**response["content"]["application/json"]["example"]["error"])
        example = shape.body(detail, told)
        out[told] = response | {"model": shape.model, "content": {"application/json": {"example": example}}}
    return out
