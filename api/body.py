"""Reading a request body: bounded while it streams, strictly UTF-8 JSON, one clear error for the rest."""

from __future__ import annotations

import email.message
import logging
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

from rag.api.errors import ApiError, request_id
from rag.checks import check_count
from rag.config import Scope
from rag.errors import LimitError

log = logging.getLogger("rag.api.bodies")


class StrictRequest(Request):
    """A request whose body must be JSON, no larger than ``app.state.max_body_bytes``.

    It holds at most ``app.state.max_documents`` documents.
    """

    async def body(self) -> bytes:
        """The whole body; refused as soon as it is known to be too large (413), never held in full."""
        if not hasattr(self, "_body"):
            _check_headers(self)
            limit = int(self.app.state.max_body_bytes)
            declared = self.headers.get("content-length", "")
            if declared.isdecimal() and int(declared) > limit:
                raise _too_large(f"{declared} bytes", limit)
            chunks: list[bytes] = []
            size = 0
            async for chunk in self.stream():
                size += len(chunk)
                if size > limit:
                    raise _too_large(f"more than {limit} bytes", limit)
                chunks.append(chunk)
            if not size:
                raise ApiError(400, "the body is empty; send a JSON object", code="malformed_json")
            self._body = b"".join(chunks)
        return self._body

    async def json(self) -> Any:
        """The body as JSON. NaN, lone surrogates, bad UTF-8 and nesting beyond 200 levels are refused (400).

        So are too many documents (422), here and not later: a body of megabytes can list millions, and to check
        each of them would keep the event loop from everybody else.
        """
        body = await self.body()
        if self.app.state.log_bodies:
            log.info("request %s: %s", request_id(self.scope), body.decode("utf-8", "replace"))
        try:
            value = from_json(body, allow_inf_nan=False)
        except ValueError as error:
            raise ApiError(400, f"the body is not valid UTF-8 JSON: {error}", code="malformed_json") from None
        documents = value.get("documents") if isinstance(value, dict) else None
        if isinstance(documents, list):
            try:
                check_count(len(documents), int(self.app.state.max_documents))
            except LimitError as error:
                raise ApiError(422, str(error), code=error.code, param="documents") from None
        return value


class StrictRoute(APIRoute):
    """A route that reads its body through `StrictRequest`, for those whose key may ``infer``."""

    needs: ClassVar[Scope | None] = "infer"
    """The scope that an API key must have; None is open to anyone."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's own handler over a strict request."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            if self.needs is not None:
                # Before the body is read: a stranger's is not even received.
                request.scope.setdefault("state", {})["key"] = request.app.state.keys.admit(request, self.needs)
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


def route_needing(scope: Scope | None) -> type[StrictRoute]:
    """The class of routes for keys with ``scope``, for ``APIRouter(route_class=...)``; None is open to anyone."""

    class ScopedRoute(StrictRoute):
        needs = scope

    return ScopedRoute


def _too_large(given: str, limit: int) -> ApiError:
    return ApiError(413, f"the body has {given}; accepted: up to {limit} bytes", code="body_too_large")


def _check_headers(request: Request) -> None:
    """Refuse (415) anything that says it is not plain UTF-8 JSON."""
    given = request.headers.get("content-type")
    message = email.message.Message()
    message["content-type"] = given or "none/none"
    kind, charset = message.get_content_type(), str(message.get_param("charset", "utf-8")).lower()
    if kind != "application/json" or charset not in ("utf-8", "utf8"):
        what = f"is {given!r}" if given else "is missing"
        raise ApiError(415, f"Content-Type {what}; accepted: application/json (UTF-8)")
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise ApiError(415, f"Content-Encoding is {encoding!r}; accepted: an uncompressed body")
