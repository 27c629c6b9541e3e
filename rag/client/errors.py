"""What a client raises."""

from __future__ import annotations

from typing import Any

import httpx

from rag.errors import RagError, shown


class ServiceError(RagError):
    """The service refused or failed, or could not be reached.

    Attributes:
        status: the HTTP status; None where no answer came.
        reason: the service's name of the failure ("limit_exceeded", "overloaded", ...), "timeout" or "unreachable".
        message: what was given and what is accepted.
        param: the field at fault, if the service named one.
        request_id: the id under which the service's log has the request.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str,
        param: str | None = None,
        request_id: str | None = None,
    ) -> None:
        told = f"{status} {reason}: {message}" if status else f"{reason}: {message}"
        super().__init__(f"{told} (request {request_id})" if request_id else told)
        self.status = status
        self.reason = reason
        self.message = message
        self.param = param
        self.request_id = request_id

    @classmethod
    def of(cls, answer: httpx.Response) -> ServiceError:
        """The error that an answer tells, in the shape of any of the service's faces, or of a proxy before it."""
        detail = _detail(answer)
        code, param = detail.get("code"), detail.get("param")
        return cls(
            str(detail.get("message") or f"{answer.reason_phrase or 'no reason given'}: {shown(answer.text[:200])}"),
            status=answer.status_code,
            # vLLM's shape has the status for a code, and a type beside it.
            reason=code if isinstance(code, str) else str(detail.get("type", "http_error")),
            param=param if isinstance(param, str) else None,
            request_id=answer.headers.get("x-request-id"),
        )

    @classmethod
    def without_answer(cls, error: httpx.RequestError, url: httpx.URL | str) -> ServiceError:
        """What to raise where the transport failed."""
        reason = "timeout" if isinstance(error, httpx.TimeoutException) else "unreachable"
        return cls(f"{url}: {error or type(error).__name__}", reason=reason)


def _detail(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    detail = body.get("error") if isinstance(body, dict) else None
    return detail if isinstance(detail, dict) else {}
