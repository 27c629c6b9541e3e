"""One accepted request, as those who work on it see it: whether anybody still waits for the answer."""

from __future__ import annotations

import time
from contextvars import ContextVar


class DroppedError(Exception):
    """Nobody waits for this request any more, so that its work is not done."""


class Ticket:
    """When a request must be done, and whether its client is still there. Cheap to ask from any thread.

    Args:
        timeout: seconds from now after which the answer is of no use; None for no bound.
    """

    def __init__(self, timeout: float | None = None) -> None:
        self.timeout = timeout
        self.began: float | None = None
        self._accepted = time.perf_counter()
        self._cancelled = False

    @property
    def seconds(self) -> float:
        """Since the request was accepted."""
        return time.perf_counter() - self._accepted

    @property
    def worked(self) -> float | None:
        """Seconds since its work began; None where it has not."""
        return None if self.began is None else time.perf_counter() - self.began

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return self.timeout is not None and self.seconds >= self.timeout

    @property
    def dead(self) -> bool:
        """Whether nobody waits for it any more."""
        return self._cancelled or self.expired

    def cancel(self) -> None:
        """The client has gone."""
        self._cancelled = True

    def check(self) -> None:
        """Raise `DroppedError` where the ticket is dead."""
        if self.dead:
            raise DroppedError


current: ContextVar[Ticket | None] = ContextVar("rag_ticket", default=None)
"""The ticket of the request that this thread works for."""
