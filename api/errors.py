"""Every failure leaves the service as one JSON shape.

``{"error": {"code", "message", "param"?, "request_id"}}``, whatever went wrong and wherever. ``code``
is stable and made for programs; the message says what was given and what is accepted. The routes that stand in
for another service have the shape of that service (`ErrorShape`).
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.types import Scope

from rag.errors import RagError

log = logging.getLogger("rag.api")

# The status of each `RagError.code`; a code that is not here is a fault of ours.
STATUS: Mapping[str, int] = {
    "empty_query": 400,
    "invalid_input": 422,
    "query_too_long": 422,
    "duplicate_ids": 422,
    "not_text": 422,
    "limit_exceeded": 422,
    "impossible_budget": 422,
    # What the operator set, never the request: `rag.api.schemas` checks that.
    "invalid_configuration": 503,
    "model_not_found": 503,
    "unsupported_model": 503,
    "artefact_mismatch": 503,
    "model_output": 500,
    "out_of_memory": 500,
    "internal_error": 500,
}

# What a client is told of a fault that is not its own. The messages of the errors themselves name folders, settings
# and what tools said on the machine; they are for the log.
FAULTS: Mapping[str, str] = {
    "invalid_configuration": "the service is configured with something that it cannot use",
    "model_not_found": "a model of the service cannot be had",
    "unsupported_model": "a model of the service is of a kind that it cannot use",
    "artefact_mismatch": "stored data of the service does not fit or is damaged",
    "out_of_memory": "the request needs more memory than the service has, even alone",
    "model_output": "a model gave a value that is not a finite number",
    "internal_error": "the service failed on this request",
}
_SEE_LOG = "its log has the details under this request id"

# The code of a failure that HTTP itself has a status for.
HTTP_CODES: Mapping[int, str] = {
    400: "malformed_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
    429: "overloaded",
    504: "deadline_exceeded",
}

_SHOWN_PROBLEMS = 5
_SHOWN_CHARACTERS = 60


class ErrorDetail(BaseModel):
    """What went wrong."""

    code: str = Field(description="Stable name of the failure, for programs.")
    message: str = Field(description="What was given and what is accepted, for people.")
    param: str | None = Field(default=None, description="The field at fault, as a path into the body. Absent if none.")
    request_id: str = Field(description="The id of this request, as in the X-Request-Id header and in our log.")


class ErrorResponse(BaseModel):
    """The body of every answer that is not a success."""

    model_config = ConfigDict(json_schema_extra={"examples": []})

    error: ErrorDetail


@dataclass(frozen=True, slots=True)
class ErrorShape:
    """How errors are told: the body for a detail and a status, its model, and statuses that are told as others."""

    body: Callable[[ErrorDetail, int], dict[str, Any]]
    model: type[BaseModel]
    statuses: Mapping[int, int] = field(default_factory=dict)


OWN_SHAPE = ErrorShape(lambda detail, _: ErrorResponse(error=detail).model_dump(exclude_none=True), ErrorResponse)


class ApiError(HTTPException):
    """A failure of the request itself (not of the library), with its status and code."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers) if headers else None)
        self.code = code or HTTP_CODES.get(status, "invalid_input")
        self.param = param


def request_id(scope: Scope) -> str:
    """The id that `rag.api.access.AccessLog` gave the request."""
    return str(scope.get("state", {}).get("request_id", ""))


def error_response(
    scope: Scope,
    status: int,
    code: str,
    message: str,
    *,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """The one error shape, or that of the face that the request came to."""
    detail = ErrorDetail(code=code, message=message, param=param, request_id=request_id(scope))
    shape = _shape_of(scope)
    status = shape.statuses.get(status, status)
    return JSONResponse(shape.body(detail, status), status_code=status, headers=dict(headers) if headers else None)


def _shape_of(scope: Scope) -> ErrorShape:
    """What the route chose, or what the application has for its path or one above (`rag.api.faces.shapes`)."""
    chosen: ErrorShape | None = scope.get("state", {}).get("error_shape")
    shapes: Mapping[str, ErrorShape] = getattr(getattr(scope.get("app"), "state", None), "error_shapes", {})
    path = f"{scope.get('path', '')}/"
    return chosen or next((shape for of, shape in shapes.items() if path.startswith(f"{of}/")), OWN_SHAPE)


def internal_error(scope: Scope, error: BaseException) -> JSONResponse:
    """Log an unforeseen failure with its stack and answer 500 without any of it.

    The exception's own message may quote a document, so it is logged at debug level only.
    """
    stack = "".join(traceback.format_tb(error.__traceback__))
    log.error("request %s failed: %s\n%s", request_id(scope), type(error).__name__, stack)
    log.debug("request %s failed with: %s", request_id(scope), error)
    return error_response(scope, 500, "internal_error", f"{FAULTS['internal_error']}; {_SEE_LOG}")


async def response_to(request: Request, error: BaseException) -> JSONResponse:
    """The answer to any failure, in the one shape."""
    for kind, handler in _HANDLERS.items():
        if isinstance(error, kind):
            return await handler(request, error)
    return internal_error(request.scope, error)


def install(app: FastAPI) -> None:
    """Make every error raised below ``app`` leave in the one shape."""
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)


async def _rag_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RagError)
    status = STATUS.get(error.code, 500)
    message = str(error)
    if status >= 500:
        log.error("request %s failed: %s: %s", request_id(request.scope), error.code, message)
        message = f"{FAULTS.get(error.code, FAULTS['internal_error'])}; {_SEE_LOG}"
    return error_response(request.scope, status, error.code, message)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = error.headers
    if isinstance(error, ApiError):
        return error_response(
            request.scope, error.status_code, error.code, str(error.detail), param=error.param, headers=headers
        )
    message = str(error.detail)
    if error.status_code == 404:
        message = f"nothing at {_shown(request.url.path)}; known: {_known(request)}"
    elif error.status_code == 405:
        allowed = _allowed(request) or (headers or {}).get("Allow", "")
        headers = {"Allow": allowed}
        message = f"{request.method} is not accepted at {request.url.path}; accepted: {allowed}"
    code = HTTP_CODES.get(error.status_code, "invalid_input")
    return error_response(request.scope, error.status_code, code, message, headers=headers)


def _known(request: Request) -> str:
    """Every route there is."""
    routes = request.app.openapi()["paths"]
    return ", ".join(f"{method.upper()} {path}" for path, methods in routes.items() for method in methods)


def _allowed(request: Request) -> str:
    """The methods of all routes at a request's path; the router itself names only those of the first."""
    path = getattr(request.scope.get("route"), "path", "")
    return ", ".join(method.upper() for method in request.app.openapi()["paths"].get(path, ()))


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = error.errors()
    message = "; ".join(_problem(problem) for problem in problems[:_SHOWN_PROBLEMS])
    if len(problems) > _SHOWN_PROBLEMS:
        message += f"; and {len(problems) - _SHOWN_PROBLEMS} more problems"
    code = _code(problems[0])
    return error_response(request.scope, STATUS[code], code, message, param=_path(problems[0]) or None)


_HANDLERS: Mapping[type[Exception], Callable[[Request, Any], Coroutine[Any, Any, JSONResponse]]] = {
    RagError: _rag_error,
    RequestValidationError: _validation_error,
    HTTPException: _http_error,
}

# What pydantic's kinds of problem are called here; others keep pydantic's own words.
_PROBLEMS: Mapping[str, str] = {
    "missing": "is required",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be a JSON object",
    "document_type": "must be a string, or an object with a text",
    "unknown_field": "is not a known field; accepted: {accepted}",
    "greater_than_equal": "must be at least {ge}",
    "literal_error": "must be {expected}",
}
_CODES: Mapping[str, str] = {"string_type": "not_text", "document_type": "not_text"}


def _code(problem: Mapping[str, Any]) -> str:
    cause = problem.get("ctx", {}).get("error")
    return cause.code if isinstance(cause, RagError) else _CODES.get(problem["type"], "invalid_input")


def _problem(problem: Mapping[str, Any]) -> str:
    """One problem as ``path: what is accepted, given ...``."""
    kind, context = problem["type"], problem.get("ctx", {})
    text = _PROBLEMS[kind].format(**context) if kind in _PROBLEMS else problem["msg"].removeprefix("Value error, ")
    if kind not in ("missing", "unknown_field") and not isinstance(context.get("error"), RagError):
        text += f", given {_shown(problem['input'])}"
    return f"{_path(problem) or 'body'}: {text}"


def _path(problem: Mapping[str, Any]) -> str:
    """Where in the body: ``documents[3].text``."""
    field = problem.get("ctx", {}).get("field")
    parts = [*problem["loc"][1:], *([field] if field else [])]
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def _shown(value: object) -> str:
    """What was given, as JSON and short."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
