"""The examples of the OpenAPI document: one real exchange, and one error of each kind."""

from __future__ import annotations

from typing import Any

CONTEXT_REQUEST: dict[str, Any] = {
    "query": "What keeps the lamp of a lighthouse turning?",
    "documents": [
        {
            "id": "lamp",
            "title": "Lamp room",
            "text": "The lens floats in a bath of mercury. A falling weight keeps it turning all night. "
            "Visitors may climb up on Sundays.",
        },
        {"id": "keeper", "text": "The keeper wrote a letter every week.", "metadata": {"page": 12}},
        "A dry stone wall runs down to the harbour.",
    ],
    "top_n": 1,
    "budget": 24,
}

CONTEXT_RESPONSE: dict[str, Any] = {}

_ERRORS: dict[int, tuple[str, dict[str, str]]] = {
    400: (
        "The body is not JSON, or the query is empty.",
        {
            "code": "empty_query",
            "message": "query is empty (given '  '): a query needs at least one character that is not white space",
        },
    ),
    413: (
        "The body is larger than the limit.",
        {"code": "body_too_large", "message": "the body has 9437184 bytes; accepted: up to 8388608 bytes"},
    ),
    415: (
        "The body is not sent as JSON.",
        {
            "code": "unsupported_media_type",
            "message": "Content-Type is 'text/plain'; accepted: application/json (UTF-8)",
        },
    ),
    422: (
        "A field is not acceptable: unknown, of the wrong type, out of range, or against a rule of the corpus.",
        {
            "code": "invalid_input",
            "message": "top_k: unknown field; accepted: query, documents, top_n, budget, retrieve_k, return_text, "
            "return_sentences",
            "param": "top_k",
        },
    ),
    429: (
        "As many requests wait as are allowed to; `Retry-After` says in how many seconds to come back.",
        {"code": "overloaded", "message": "64 requests are running or waiting; accepted: up to 64"},
    ),
    500: (
        "The service failed.",
        {
            "code": "internal_error",
            "message": "the service failed on this request; its log has the details under this request id",
        },
    ),
    503: (
        "The model cannot be loaded.",
        {
            "code": "model_not_found",
            "message": "model 'my-model' is not on this machine and cannot be fetched: offline",
        },
    ),
}

_REQUEST_ID = "0f8fad5bd9cb469fa16570867728950e"


def error_responses(model: type, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route that may fail with ``statuses``, each with an example."""
    responses: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        description, error = _ERRORS[status]
        example = {"error": {**error, "request_id": _REQUEST_ID}}
        responses[status] = {
            "model": model,
            "description": description,
            "content": {"application/json": {"example": example}},
        }
    return responses
