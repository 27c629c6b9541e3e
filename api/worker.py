"""The one thread that runs the model, behind a bounded queue.

The event loop hands work over and never blocks. This is the seam where batching will sit: whoever
calls `ModelWorker.run` does not know how, or together with what, its work is done.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

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


class ModelWorker:
    """Runs callables one after the other in its own thread.

    Args:
        limit: how many may be running or waiting at once.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rag-model")
        self._pending = 0
        self._seconds = 1.0

    @property
    def pending(self) -> int:
        """How many are running or waiting."""
        return self._pending

    async def run(self, work: Callable[[], T]) -> Finished[T]:
        """Wait for the turn of ``work`` and return what it returns.

        A caller that is cancelled before its turn leaves the queue, and the work is not done.

        Raises:
            QueueFullError: the queue is at its bound; nothing was queued.
        """
        if self._pending >= self.limit:
            raise QueueFullError(self._pending, self.limit, max(1, math.ceil(self._pending * self._seconds)))
        queued = time.perf_counter()

        def timed() -> Finished[T]:
            began = time.perf_counter()
            value = work()
            self._seconds += _SMOOTHING * (time.perf_counter() - began - self._seconds)
            return Finished(value, began - queued)

        self._pending += 1
        loop = asyncio.get_running_loop()
        future = self._executor.submit(timed)
        future.add_done_callback(lambda done: self._settle(loop, done))
        return await asyncio.wrap_future(future)

    def _settle(self, loop: asyncio.AbstractEventLoop, _done: Future[Finished[T]]) -> None:
        """Count a finished or cancelled job off, on the loop's own thread."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._count_off)

    def _count_off(self) -> None:
        self._pending -= 1

    def close(self) -> None:
        """Finish what was accepted, then end the thread. Blocks."""
        self._executor.shutdown(wait=True)
