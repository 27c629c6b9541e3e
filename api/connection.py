"""What a request says beside its body: how long its client waits, whether it is still there, what it wants back."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from rag.api.errors import ApiError

T = TypeVar("T")

TIMEOUT_HEADER = "X-Request-Timeout"
EVENTS = "text/event-stream"

# What the OpenAPI document says of routes that know the header above, and of those that may answer with events.
TIMED: dict[str, Any] = {
    "parameters": [
        {
            "name": TIMEOUT_HEADER,
            "in": "header",
            "schema": {"type": "number", "exclusiveMinimum": 0},
            "example": 30,
            "description": "The seconds that the answer may take. What is late is answered 504, and not computed.",
        }
    ]
}
STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"content": {EVENTS: {"schema": {"type": "string", "description": "Asked for with `Accept`."}}}}
}


def timeout_of(request: Request) -> float | None:
    """The seconds of ``X-Request-Timeout``, or None where it is not given.

    Raises:
        ApiError: it is no number above 0 (400).
    """
    given = request.headers.get(TIMEOUT_HEADER)
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ApiError(
            400,
            f"{TIMEOUT_HEADER} is {given[:40]!r}; accepted: seconds, a number above 0",
            code="invalid_input",
            param=TIMEOUT_HEADER,
        )
    return seconds


def wants_events(request: Request) -> bool:
    """Whether ``Accept`` names server-sent events."""
    accepted = request.headers.get("accept", "").split(",")
    return any(part.partition(";")[0].strip().lower() == EVENTS for part in accepted)


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled when the client goes away first."""
    job = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(disconnected(request))
    try:
        await asyncio.wait({job, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise client_gone()
        return job.result()
    finally:
        job.cancel()
        gone.cancel()


async def disconnected(request: Request) -> None:
    """Wait until the client is gone. The body must have been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def client_gone() -> ApiError:
    """What a request ends with that nobody waits for; only the log sees it."""
    return ApiError(499, "the client closed the connection", code="client_closed_request")
