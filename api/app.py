"""The FastAPI application: its routes, and how it starts and stops."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request, Response, Security
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import PlainTextResponse
from fastapi.security import HTTPBearer
from pydantic import ValidationError

from rag.api import corpora_routes, errors, explain, faces, playground
from rag.api.access import AccessLog
from rag.api.body import StrictRoute, route_needing
from rag.api.connection import STREAMED, TIMED, timeout_of, wants_events, while_connected
from rag.api.examples import error_responses
from rag.api.info import info
from rag.api.keys import Keys
from rag.api.metrics import CONTENT_TYPE, Metrics
from rag.api.schemas import ContextRequest, ContextResponse, HealthResponse, InfoResponse, LiveResponse
from rag.api.service import ContextService
from rag.api.streaming import stream
from rag.api.worker import Finished
from rag.errors import ModelOutputError
from rag.models import public_name
from rag.pipeline import Pipeline

if TYPE_CHECKING:
    from rag.config import Settings
    from rag.request import OnStage
    from rag.results import ContextResult

_DESCRIPTION = """Decides which passages of a corpus, and which sentences of them, a reader LLM should see, and in
which order. Every error has the body `{"error": {"code", "message", "param"?, "request_id"}}`; on the routes that stand
in for another service (Cohere, Jina and vLLM, TEI, OpenAI) it has the shape of that service's."""

_GUARDED = error_responses(errors.ErrorResponse, 401, 403, 429, 500)
_KEY = HTTPBearer(auto_error=False, description="An API key, where the service has any.")

router = APIRouter(route_class=StrictRoute, dependencies=[Security(_KEY)])
open_router = APIRouter(route_class=route_needing(None))
metrics_router = APIRouter(route_class=route_needing("metrics"), dependencies=[Security(_KEY)])


def create_app(
    settings: Settings | None = None, *, pipeline: Pipeline | None = None, queue_limit: int | None = None
) -> FastAPI:
    """Make the service.

    The models are loaded when the application starts up (not here), in the background; until then
    ``/health`` says so and requests wait.

    Args:
        settings: the configuration; None means the YAML file and environment variables in force.
        pipeline: a pipeline to serve, in place of one made from ``settings``.
        queue_limit: how many requests may be running or waiting (more are answered 429), in place of ``server.queue``.

    Raises:
        ConfigError: the configuration is not acceptable.
    """
    metrics = Metrics()
    service = ContextService(pipeline if pipeline is not None else Pipeline(settings), metrics, queue_limit)
    server = service.pipeline.settings.server

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
    app.state.keys = Keys(server)
    app.state.log_bodies = server.log_bodies
    app.state.max_body_bytes = int(server.max_body_bytes)
    app.state.max_documents = service.pipeline.settings.limits.documents
    if server.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=server.cors_origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "X-Request-Id", "X-Request-Timeout"],
            expose_headers=["X-Request-Id", "Retry-After"],
        )
    app.add_middleware(AccessLog, metrics=metrics)
    errors.install(app)
    for part in (router, open_router, metrics_router):
        app.include_router(part)
    faces.install(app, service, [Security(_KEY)])
    corpora_routes.install(app, service, [Security(_KEY)])
    app.include_router(explain.router, dependencies=[Security(_KEY)])
    app.include_router(playground.router)
    return app


@router.post(
    "/v1/context",
    response_model=ContextResponse,
    responses=error_responses(errors.ErrorResponse, 400, 401, 403, 413, 415, 422, 429, 500, 503, 504) | STREAMED,
    openapi_extra=TIMED,
    summary="Rank, compress and order passages for a question",
)
async def context(body: ContextRequest, request: Request) -> Response:
    """Return the context a reader model should see, with spans back into the source and an account of the rest.

    With `Accept: text/event-stream` each stage is told as it ends (event `stage`), then the answer (`result`) or an
    error (`error`).
    """
    service = _service(request)
    timeout = timeout_of(request)

    async def answered(on_stage: OnStage | None = None) -> bytes:
        finished = await service.answer(body, timeout=timeout, on_stage=on_stage)
        return _reply(request, body, finished)

    if wants_events(request):
        positions = {document.id: index for index, document in enumerate(body.corpus())}
        return await stream(request, positions, answered)
    return Response(await while_connected(request, answered()), media_type="application/json")


def _reply(request: Request, body: ContextRequest, finished: Finished[ContextResult]) -> bytes:
    try:
        reply = ContextResponse.of(
            finished.value,
            body,
            id=errors.request_id(request.scope),
            model=public_name(_service(request).pipeline.settings.model),
            queued=finished.waited,
        )
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise ModelOutputError(f"the pipeline gave a value that cannot be answered with, at {where}") from None
    return reply.model_dump_json(exclude_none=True).encode()


@metrics_router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses=_GUARDED,
    summary="Metrics in Prometheus' text format",
)
async def metrics(request: Request) -> Response:
    """Requests, latencies, queues, batches, the cache, and tokens saved, since this worker process began."""
    return Response(_service(request).metrics.text(), media_type=CONTENT_TYPE)


@open_router.get(
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


@open_router.get("/health/live", response_model=LiveResponse, summary="Whether the process is alive")
async def live() -> LiveResponse:
    """200 as long as the process answers at all, whether or not it is ready."""
    return LiveResponse()


@router.get("/info", response_model=InfoResponse, responses=_GUARDED, summary="What is served, and within which limits")
async def describe(request: Request) -> InfoResponse:
    """Model, layout, heads, limits, defaults, versions and cache statistics."""
    return info(_service(request))


def _service(request: Request) -> ContextService:
    service = request.app.state.service
    assert isinstance(service, ContextService)
    return service
