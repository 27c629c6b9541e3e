"""The pipeline as the service holds it: loaded in the worker's thread, and honest about its state."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Literal

from rag.api.errors import FAULTS, ApiError
from rag.api.schemas import ContextRequest, HealthResponse
from rag.api.worker import Finished, ModelWorker, QueueFullError
from rag.checks import as_query, check_limits
from rag.corpus import as_documents
from rag.errors import ConfigError, InputError, RagError

if TYPE_CHECKING:
    from rag.pipeline import Pipeline
    from rag.results import ContextResult

log = logging.getLogger("rag.api")

_NOT_LOADED = "the models cannot be loaded"

State = Literal["loading", "ready", "failed"]


class ContextService:
    """One pipeline behind one worker thread.

    Args:
        pipeline: what answers; its models are loaded by `start`, or by the first request after a failure.
        queue_limit: how many requests may be running or waiting at once.
    """

    def __init__(self, pipeline: Pipeline, queue_limit: int) -> None:
        self.pipeline = pipeline
        self.worker = ModelWorker(queue_limit)
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
        await asyncio.to_thread(self.worker.close)

    async def answer(self, request: ContextRequest) -> Finished[ContextResult]:
        """Run the pipeline when its turn comes.

        Raises:
            RagError: the input is not acceptable, or the model failed.
            ApiError: the queue is full (429).
        """
        # What can be refused without a model is refused before it waits for one.
        query, corpus = as_query(request.query), as_documents(request.corpus())
        check_limits(corpus, self.pipeline.settings.limits)
        budget = request.budget.budget() if request.budget else None

        def work() -> ContextResult:
            self._prepare()
            return self.pipeline.run(query, corpus, top_n=request.top_n, budget=budget, retrieve_k=request.retrieve_k)

        try:
            finished = await self.worker.run(work)
        except QueueFullError as full:
            raise ApiError(429, str(full), headers={"Retry-After": str(full.retry_after)}) from None
        self._set("ready")
        return finished

    def _prepare(self) -> None:
        """Load what is not loaded. What is refused here is what the operator set, whatever kind of error it is."""
        try:
            _ = self.pipeline.engine
            self.pipeline.specs()
        except InputError as error:
            raise ConfigError(str(error)) from error

    @property
    def loaded(self) -> bool:
        """Whether the models are in memory."""
        return self._state == "ready"

    def health(self) -> HealthResponse:
        """What is true now."""
        pending = self.worker.pending
        if self._state == "ready" and pending >= self.worker.limit:
            return HealthResponse(ready=False, status="overloaded", detail="the queue is full", pending=pending)
        return HealthResponse(ready=self._state == "ready", status=self._state, detail=self._detail, pending=pending)

    async def _load(self) -> None:
        try:
            loaded = await self.worker.run(self.pipeline.warm)
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
