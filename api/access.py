"""One id, one log line and one count per request; no text of a query or a document in any."""

from __future__ import annotations

import logging
import re
import time
import uuid
from contextvars import ContextVar

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag.api.errors import internal_error
from rag.api.metrics import Metrics

log = logging.getLogger("rag.api.access")

HEADER = "X-Request-Id"
current_id: ContextVar[str] = ContextVar("rag_request_id", default="")
"""The id of the request that is worked for, for log records (`rag.api.logs`)."""

_SANE = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def choose_id(given: str | None) -> str:
    """The client's request id where it is short and plain, else a new one."""
    return given if given and _SANE.fullmatch(given) else uuid.uuid4().hex


class AccessLog:
    """ASGI middleware: names the request, logs it, and turns whatever escapes into a plain 500."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection; everything but HTTP passes through."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        name = choose_id(Headers(scope=scope).get(HEADER))
        scope.setdefault("state", {})["request_id"] = name
        current_id.set(name)
        started = time.perf_counter()
        status = 0

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = name
            await send(message)

        try:
            await self.app(scope, receive, send_named)
        except Exception as error:
            response = internal_error(scope, error)
            if status:  # The answer is already on its way: the connection must break, not end well.
                raise
            await response(scope, receive, send_named)
        finally:
            seconds = time.perf_counter() - started
            self.metrics.answered(getattr(scope.get("route"), "path", "unknown"), status, seconds)
            key = getattr(scope["state"].get("key"), "name", None)
            fields = {"method": scope["method"], "path": scope["path"], "status": status, "seconds": round(seconds, 4)}
            log.info(
                "%s %r %d %.3fs id=%s",
                *(scope["method"], scope["path"], status, seconds, name),
                extra={"fields": fields | ({"key": key} if key else {})},
            )
