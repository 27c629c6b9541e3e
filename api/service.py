"""The pipeline as the service holds it: its models in one thread, its requests in a few, and honest about its state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rag.api.batched import BatchedEmbedder, BatchedEngine
from rag.api.errors import FAULTS, ApiError
from rag.api.metrics import Metrics
from rag.api.model_thread import ModelThread
from rag.api.schemas import ContextRequest, HealthResponse
from rag.api.threads import apart
from rag.api.tickets import DroppedError, Ticket
from rag.api.worker import Finished, QueueFullError, RequestPool
from rag.checks import as_query, check_limits
from rag.corpus import as_documents
from rag.errors import ConfigError, InputError, RagError
from rag.pipeline import Pipeline

if TYPE_CHECKING:
    from rag.embedding import TextEmbedder
    from rag.request import OnStage
    from rag.results import ContextResult, StageTrace

log = logging.getLogger("rag.api")

T = TypeVar("T")

_NOT_LOADED = "the models cannot be loaded"
_THREAD_FAILS = "internal_error: the model thread fails on every request; the service's log says why"

State = Literal["loading", "ready", "failed"]


class ContextService:
    """One pipeline for many requests at once.

    Each request runs in a thread of a pool. What it asks of the models, it asks of the one model thread, which
    reads for several requests together; `pipeline` is made of stages that do so.

    Args:
        pipeline: what answers; its models are loaded by `start`, or by the first request after a failure.
        metrics: told what happens.
        queue_limit: how many requests may be running or waiting at once; None means as the settings say.
    """

    def __init__(self, pipeline: Pipeline, metrics: Metrics, queue_limit: int | None = None) -> None:
        server = pipeline.settings.server
        self._models = pipeline.resources
        self.thread = ModelThread(
            self._models.engine,  # type: ignore[arg-type]
            self._embedder,
            batch_tokens=server.batch_tokens,
            batch_requests=server.batch_requests,
            observer=metrics,
            threads=pipeline.settings.threads,
        )
        self.pipeline = Pipeline(
            pipeline.settings,
            engine=BatchedEngine(self._models.engine, self.thread),  # type: ignore[arg-type]
            embedder=BatchedEmbedder(self._embedder, self.thread),
        )
        self.pool = RequestPool(queue_limit or server.queue, server.concurrency)
        self.metrics = metrics
        metrics.observe("rag_pending_requests", "Requests running or waiting.", lambda: self.pool.pending)
        metrics.observe("rag_model_queue", "Jobs that wait for the model thread.", lambda: self.thread.waiting)
        metrics.observe("rag_ready", "1 where /health says ready.", lambda: self.health().ready)
        metrics.watch_cache(self.cache_stats)
        self._state: State = "loading"
        self._detail = "the model is being loaded"
        self._loading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to load the models, without waiting for them. Requests that come meanwhile wait their turn."""
        self._loading = asyncio.create_task(self._load())

    async def stop(self) -> None:
        """Finish what was accepted."""
        if self._loading is not None:
            await self._loading
        await asyncio.to_thread(self.pool.close)
        await asyncio.to_thread(self.thread.close)

    async def answer(
        self, request: ContextRequest, *, timeout: float | None = None, on_stage: OnStage | None = None
    ) -> Finished[ContextResult]:
        """Run the pipeline for one request.

        Raises:
            RagError: the input is not acceptable, or the model failed.
            ApiError: as `run`.
        """
        # What can be refused without a model is refused before it waits for one.
        query, corpus = as_query(request.query), as_documents(request.corpus())
        check_limits(corpus, self.pipeline.settings.limits)
        budget = request.budget.budget() if request.budget else None
        ticket = Ticket(timeout)

        def staged(trace: StageTrace, outcome: Any) -> None:
            ticket.check()
            if on_stage is not None:
                on_stage(trace, outcome)

        finished = await self.run(
            lambda pipeline: pipeline.run(
                query,
                corpus,
                top_n=request.top_n,
                budget=budget,
                retrieve_k=request.retrieve_k,
                on_stage=staged,
            ),
            ticket,
        )
        self.metrics.result(finished.value)
        return finished

    def _embedder(self) -> TextEmbedder:
        """The embedding model itself: what it embedded is remembered where requests ask, before they wait for it."""
        return self._models.embedder().embedder

    async def run(self, call: Callable[[Pipeline], T], ticket: Ticket | None = None) -> Finished[T]:
        """What ``call`` makes of the pipeline, in a thread of the pool when its turn comes.

        Raises:
            RagError: the models cannot be loaded; and whatever ``call`` raises.
            ApiError: the queue is full (429), or the ticket's time is over (504).
        """
        ticket = ticket or Ticket()

        def work() -> T:
            with self.thread.coming():
                self._prepare()
                return call(self.pipeline)

        try:
            async with asyncio.timeout(ticket.timeout):
                finished = await self.pool.run(work, ticket)
        except QueueFullError as full:
            raise ApiError(429, str(full), headers={"Retry-After": str(full.retry_after)}) from None
        except (TimeoutError, DroppedError):
            if not ticket.expired:
                raise
            self.metrics.dropped("timeout")
            raise _too_late(ticket) from None
        except asyncio.CancelledError:
            ticket.cancel()
            self.metrics.dropped("client_gone")
            raise
        self._set("ready")
        return finished

    def _prepare(self) -> None:
        """Load what is not loaded. What is refused here is what the operator set, whatever kind of error it is."""
        try:
            if not self.loaded:
                apart(self._models.engine)
            self.pipeline.specs()
        except InputError as error:
            raise ConfigError(str(error)) from error

    @property
    def loaded(self) -> bool:
        """Whether the models are in memory."""
        return self._state == "ready"

    def cache_stats(self) -> Mapping[str, int]:
        """The counters of the block cache; empty before loading."""
        engine: Any = self._models.engine() if self.loaded else None
        return asdict(engine.cache_stats()) if hasattr(engine, "cache_stats") else {}

    def health(self) -> HealthResponse:
        """What is true now."""
        pending = self.pool.pending
        if not self.thread.healthy:
            return HealthResponse(ready=False, status="failed", detail=_THREAD_FAILS, pending=pending)
        if self._state == "ready" and pending >= self.pool.limit:
            return HealthResponse(ready=False, status="overloaded", detail="the queue is full", pending=pending)
        return HealthResponse(ready=self._state == "ready", status=self._state, detail=self._detail, pending=pending)

    async def _load(self) -> None:
        try:
            loaded = await self.pool.run(lambda: apart(self.pipeline.warm))
        except RagError as error:
            log.error("the models cannot be loaded: %s: %s", error.code, error)
            self._set("failed", error.code)
        except Exception:
            log.exception("the models cannot be loaded")
            self._set("failed", "internal_error")
        else:
            self._set("ready")
            log.info("ready: %r", loaded.value)

    def _set(self, state: State, code: str = "") -> None:
        """``code`` of the error is told to anyone who asks; its message, which may name folders, is in the log."""
        self._state = state
        self._detail = f"{code}: {FAULTS.get(code, _NOT_LOADED)}; the service's log says why" if code else ""


def _too_late(ticket: Ticket) -> ApiError:
    waited = ticket.seconds if ticket.worked is None else ticket.seconds - ticket.worked
    did = "never began" if ticket.worked is None else f"worked {ticket.worked:.3f} s"
    return ApiError(
        504, f"not finished within {ticket.timeout:g} s (X-Request-Timeout): waited {waited:.3f} s for its turn, {did}"
    )
