"""The examples of the OpenAPI document: one real exchange with the default pipeline, and one error of each kind."""

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

CONTEXT_RESPONSE: dict[str, Any] = {
    "id": "0f8fad5bd9cb469fa16570867728950e",
    "model": "smollm2-135m",
    "query": "What keeps the lamp of a lighthouse turning?",
    "results": [
        {
            "id": "lamp",
            "index": 0,
            "rank": 1,
            "score": 1.709,
            "scores": {
                "bm25": 1.3401,
                "bm25_rank": 1.0,
                "dense": 0.5682,
                "dense_rank": 1.0,
                "attention": 0.7932,
                "retriever": 1.4111,
                "reranker": 1.709,
            },
            "title": "Lamp room",
            "text": "The lens floats in a bath of mercury. A falling weight keeps it turning all night.",
            "spans": [[0, 37], [38, 82]],
            "sentences": [
                {"span": [0, 37], "score": 0.0107, "kept": True},
                {"span": [38, 82], "score": 0.0204, "kept": True},
                {"span": [83, 116], "score": 0.0088, "kept": False},
            ],
            "tokens_before": 25,
            "tokens_after": 18,
            "truncated": False,
            "windowed": False,
            "windows": 1,
            "empty": False,
            "metadata": {},
        }
    ],
    "context": "[1] Lamp room\nThe lens floats in a bath of mercury. A falling weight keeps it turning all night.",
    "dropped": [
        {
            "id": "keeper",
            "index": 1,
            "reason": "below_top_n",
            "detail": "rank 3 of 3; the best 1 were taken",
            "rank": 3,
            "score": -0.9407,
        },
        {
            "id": "2",
            "index": 2,
            "reason": "below_top_n",
            "detail": "rank 2 of 3; the best 1 were taken",
            "rank": 2,
            "score": -0.7683,
        },
    ],
    "usage": {
        "query_tokens": 9,
        "corpus_tokens": 47,
        "context_tokens": 24,
        "saved_tokens": 23,
        "encoded_tokens": 50,
        "cached_blocks": 0,
    },
    "timings": {
        "queue": 0.0001,
        "retriever": 0.1794,
        "reranker": 0.5207,
        "compressor": 0.003,
        "ordering": 0.0,
        "total": 0.7072,
    },
    "stages": [
        {
            "stage": "retriever",
            "name": "fused",
            "seconds": 0.1794,
            "documents_in": 3,
            "documents_out": 3,
            "tokens_in": 47,
            "tokens_out": 47,
            "details": {},
        },
        {
            "stage": "reranker",
            "name": "probe",
            "seconds": 0.5207,
            "documents_in": 3,
            "documents_out": 3,
            "tokens_in": 47,
            "tokens_out": 47,
            "details": {
                "attention_passes": 1,
                "attention_reused": 0,
                "attention_encoded_tokens": 50,
                "attention_cached_blocks": 0,
            },
        },
        {
            "stage": "compressor",
            "name": "sentinel",
            "seconds": 0.003,
            "documents_in": 1,
            "documents_out": 1,
            "tokens_in": 25,
            "tokens_out": 18,
            "details": {
                "attention_passes": 0,
                "attention_reused": 1,
                "attention_encoded_tokens": 0,
                "attention_cached_blocks": 0,
            },
        },
        {
            "stage": "ordering",
            "name": "ranked",
            "seconds": 0.0,
            "documents_in": 1,
            "documents_out": 1,
            "tokens_in": 29,
            "tokens_out": 29,
            "details": {},
        },
    ],
    "warnings": [],
}

_ERRORS: dict[int, tuple[str, dict[str, str]]] = {
    400: (
        "The body is not JSON, or the query is empty.",
        {
            "code": "empty_query",
            "message": "query is empty (given '  '): a query needs at least one character that is not white space",
        },
    ),
    401: (
        "The service has API keys, and the request has none or one that is not known.",
        {"code": "unauthorized", "message": "no API key given; accepted: Authorization: Bearer KEY"},
    ),
    403: (
        "The API key may not do this.",
        {"code": "forbidden", "message": "key 'search' has the scopes corpora:read; this needs infer"},
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
            "message": "top_k: is not a known field; accepted: query, documents, top_n, budget, retrieve_k, "
            "return_text, return_sentences",
            "param": "top_k",
        },
    ),
    429: (
        "As many requests wait as are allowed to, or the API key made too many; `Retry-After` says in how many "
        "seconds to come back.",
        {"code": "overloaded", "message": "64 requests are running or waiting; accepted: up to 64"},
    ),
    500: (
        "The service failed.",
        {
            "code": "internal_error",
            "message": "the service failed on this request; its log has the details under this request id",
        },
    ),
    504: (
        "The answer was not ready within the seconds of `X-Request-Timeout`.",
        {
            "code": "deadline_exceeded",
            "message": "not finished within 0.5 s (X-Request-Timeout): waited 0.412 s for its turn, worked 0.088 s",
        },
    ),
    503: (
        "The service cannot work as it is configured: a model, an artefact or a setting.",
        {
            "code": "model_not_found",
            "message": "a model of the service cannot be had; its log has the details under this request id",
        },
    ),
}

# What comes with an error beside its body.
_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"required": True, "schema": {"type": "string"}}},
    429: {"Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 1}, "description": "In seconds."}},
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
        if status in _HEADERS:
            responses[status]["headers"] = _HEADERS[status]
    return responses
