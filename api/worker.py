"""The threads in which requests run, behind a bounded queue.

What a request computes itself (lexical search, choosing sentences) runs in one of these threads; what it
needs of a model it asks of the one model thread (`rag.api.model_thread`), together with the others. The
event loop hands work over and never blocks.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from rag.api.threads import use_one
from rag.api.tickets import Ticket, current

T = TypeVar("T")

_SMOOTHING = 0.2


class QueueFullError(Exception):
    """As many requests wait as are allowed to; ``retry_after`` is in whole seconds."""

    def __init__(self, waiting: int, limit: int, retry_after: int) -> None:
        super().__init__(f"{waiting} requests are running or waiting; accepted: up to {limit}")
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Finished(Generic[T]):
    """What some work returned, and the seconds it waited before it began."""

    value: T
    waited: float


class RequestPool:
    """Runs callables in a few threads, begun in the order they came.

    Args:
        limit: how many may be running or waiting at once.
        threads: how many may be running at once.
    """

    def __init__(self, limit: int, threads: int = 1) -> None:
        self.limit = limit
        self.threads = threads
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="rag-request", initializer=use_one)
        self._pending = 0
        self._seconds = 1.0

    @property
    def pending(self) -> int:
        """How many are running or waiting."""
        return self._pending

    async def run(self, work: Callable[[], T], ticket: Ticket | None = None) -> Finished[T]:
        """Wait for the turn of ``work`` and return what it returns.

        A caller that is cancelled before its turn leaves the queue, and the work is not done; neither is it
        where ``ticket`` is dead by then. While the work runs, `rag.api.tickets.current` is its ticket.

        Raises:
            QueueFullError: the queue is at its bound; nothing was queued.
            DroppedError: the ticket was dead when its turn came.
        """
        if self._pending >= self.limit:
            seconds = self._pending * self._seconds / self.threads
            raise QueueFullError(self._pending, self.limit, max(1, math.ceil(seconds)))
        ticket = ticket or Ticket()
        queued = time.perf_counter()

        def timed() -> Finished[T]:
            ticket.check()
            current.set(ticket)
            began = ticket.began = time.perf_counter()
            value = work()
            self._seconds += _SMOOTHING * (time.perf_counter() - began - self._seconds)
            return Finished(value, began - queued)

        self._pending += 1
        loop = asyncio.get_running_loop()
        future = self._executor.submit(contextvars.copy_context().run, timed)
        future.add_done_callback(lambda done: self._settle(loop, done))
        return await asyncio.wrap_future(future)

    def _settle(self, loop: asyncio.AbstractEventLoop, _done: Future[Finished[T]]) -> None:
        """Count a finished or cancelled job off, on the loop's own thread."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._count_off)

    def _count_off(self) -> None:
        self._pending -= 1

    def close(self) -> None:
        """Finish what was accepted, then end the threads. Blocks."""
        self._executor.shutdown(wait=True)
