"""The FastAPI application: its routes, and how it starts and stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import APIRouter, FastAPI, Request, Response
from pydantic import ValidationError

from rag.api import errors
from rag.api.access import AccessLog
from rag.api.body import StrictRoute
from rag.api.examples import error_responses
from rag.api.info import info
from rag.api.schemas import ContextRequest, ContextResponse, HealthResponse, InfoResponse, LiveResponse
from rag.api.service import ContextService
from rag.errors import ModelOutputError
from rag.models import public_name
from rag.pipeline import Pipeline

if TYPE_CHECKING:
    from rag.config import Settings

T = TypeVar("T")

QUEUE_LIMIT = 64
_DESCRIPTION = """Decides which passages of a corpus, and which sentences of them, a reader LLM should see, and in
which order. Every error has the body `{"error": {"code", "message", "param"?, "request_id"}}`."""

router = APIRouter(route_class=StrictRoute)


def create_app(
    settings: Settings | None = None, *, pipeline: Pipeline | None = None, queue_limit: int = QUEUE_LIMIT
) -> FastAPI:
    """Make the service.

    The models are loaded when the application starts up (not here), in the background; until then
    ``/health`` says so and requests wait.

    Args:
        settings: the configuration; None means the YAML file and environment variables in force.
        pipeline: a pipeline to serve, in place of one made from ``settings``.
        queue_limit: how many requests may be running or waiting; more are answered 429.

    Raises:
        ConfigError: the configuration is not acceptable.
    """
    service = ContextService(pipeline if pipeline is not None else Pipeline(settings), queue_limit)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="rag-context",
        version=version("rag-context"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        # The pages that FastAPI offers load their scripts from a CDN; the document itself is at /openapi.json.
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.state.max_body_bytes = int(service.pipeline.settings.server.max_body_bytes)
    app.state.max_documents = service.pipeline.settings.limits.documents
    app.add_middleware(AccessLog)
    errors.install(app)
    app.include_router(router)
    return app


@router.post(
    "/v1/context",
    response_model=ContextResponse,
    responses=error_responses(errors.ErrorResponse, 400, 413, 415, 422, 429, 500, 503),
    summary="Rank, compress and order passages for a question",
)
async def context(body: ContextRequest, request: Request) -> Response:
    """Return the context a reader model should see, with spans back into the source and an account of the rest."""
    service = _service(request)
    finished = await _while_connected(request, service.answer(body))
    try:
        reply = ContextResponse.of(
            finished.value,
            body,
            id=errors.request_id(request.scope),
            model=public_name(service.pipeline.settings.model),
            queued=finished.waited,
        )
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise ModelOutputError(f"the pipeline gave a value that cannot be answered with, at {where}") from None
    return Response(reply.model_dump_json(exclude_none=True), media_type="application/json")


@router.get(
    "/health",
    response_model=HealthResponse,
    responses={503: {"model": HealthResponse, "description": "Alive, but not ready to work."}},
    summary="Whether the service is ready",
)
async def health(request: Request, response: Response) -> HealthResponse:
    """200 when requests will be answered at once, 503 while the model loads, cannot load, or the queue is full."""
    state = _service(request).health()
    response.status_code = 200 if state.ready else 503
    return state


@router.get("/health/live", response_model=LiveResponse, summary="Whether the process is alive")
async def live() -> LiveResponse:
    """200 as long as the process answers at all, whether or not it is ready."""
    return LiveResponse()


@router.get("/info", response_model=InfoResponse, summary="What is served, and within which limits")
async def describe(request: Request) -> InfoResponse:
    """Model, layout, heads, limits, defaults, versions and cache statistics."""
    return info(_service(request))


def _service(request: Request) -> ContextService:
    service = request.app.state.service
    assert isinstance(service, ContextService)
    return service


async def _while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled when the client goes away first."""
    job = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({job, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise errors.ApiError(499, "the client closed the connection", code="client_closed_request")
        return job.result()
    finally:
        job.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
