"""What the model thread does next: known documents together, unknown ones between the turns of others.

A request over documents whose blocks are in memory costs a few dozen tokens; to read a document for the first
time costs some fifty times as much per token. So known requests share a pass, up to a budget of tokens,
and an unknown one is read alone, a slice at a time, with a turn for everybody else after each slice. Neither can
starve the other: turns alternate.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rag.api.tickets import DroppedError, Ticket

ENCODING_COST = 50
"""What it costs to read a token for the first time, in tokens that are known (docs/results.md: 57 on a CPU)."""

AGEING_SECONDS = 0.25
"""After this time in the queue a job counts as half as large as it is, after twice the time a third, and so on."""


@dataclass(eq=False)
class Job(ABC):
    """Work that waits for the model thread.

    ``size`` decides who goes first: the smaller, and of whatever size the longer it waits. ``coming`` says that
    its request has not asked for attention yet.
    """

    ticket: Ticket
    future: Future[Any] = field(default_factory=Future, init=False)
    queued: float = field(default_factory=time.perf_counter, init=False)
    coming: bool = field(default=False, init=False)

    @property
    @abstractmethod
    def size(self) -> int:
        """Work that is left, in units that are the same for all jobs of one kind."""

    def finish(self, answer: Any) -> None:
        """Hand the answer to the one who waits, unless the job was given up."""
        if not self.future.done():
            self.future.set_result(answer)

    def fail(self, error: BaseException) -> None:
        """Tell the one who waits, unless the job is finished."""
        if not self.future.done():
            self.future.set_exception(error)

    def urgency(self, now: float) -> float:
        """The lower, the sooner."""
        return self.size / (1 + (now - self.queued) / AGEING_SECONDS)


@dataclass(eq=False)
class AttentionJob(Job):
    """One query over its documents (``request``); ``listed`` is equal for equal lists of documents.

    ``unread`` says how many of the ``tokens`` are not known yet, as of now.
    """

    request: Any
    listed: bytes
    tokens: int
    unread: Callable[[], int]
    unknown: int = 0

    def refresh(self) -> None:
        """Look again at what is not known."""
        self.unknown = self.unread()

    @property
    def size(self) -> int:
        """Tokens, unknown ones at what they cost."""
        return self.tokens + ENCODING_COST * self.unknown


@dataclass(eq=False)
class TextsJob(Job):
    """Texts to embed by the method ``kind`` of the embedder; ``parts`` holds what it gave for the first ``at``."""

    kind: str
    texts: Sequence[str]
    at: int = 0
    parts: list[Any] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Texts that are left."""
        return len(self.texts) - self.at


@dataclass(frozen=True)
class Slice:
    """The next texts of a job."""

    job: TextsJob
    texts: Sequence[str]


J = TypeVar("J", bound=Job)


def living(jobs: Iterable[J]) -> list[J]:
    """The jobs that somebody still waits for; those of dead tickets are told that they are dropped."""
    left = []
    for job in jobs:
        if job.ticket.dead:
            job.fail(DroppedError())
        if not job.future.done():
            left.append(job)
    return left


def known_batch(jobs: Sequence[AttentionJob], most_tokens: int, most_jobs: int) -> list[AttentionJob]:
    """The jobs of the next pass, the most urgent first; at least one, where any has nothing unknown.

    Jobs over the same list read its tokens together, so that each list counts once in ``most_tokens``.
    """
    now = time.perf_counter()
    chosen: list[AttentionJob] = []
    lists: set[bytes] = set()
    tokens = 0
    for job in sorted((job for job in jobs if not job.unknown), key=lambda job: job.urgency(now)):
        more = 0 if job.listed in lists else job.tokens
        if chosen and tokens + more > most_tokens:
            continue
        chosen.append(job)
        lists.add(job.listed)
        tokens += more
        if len(chosen) == most_jobs:
            break
    return chosen


def next_unknown(jobs: Sequence[AttentionJob]) -> AttentionJob | None:
    """The most urgent job that has something to read for the first time."""
    now = time.perf_counter()
    return min((job for job in jobs if job.unknown), key=lambda job: job.urgency(now), default=None)


def text_slices(jobs: Sequence[TextsJob], most: int) -> list[Slice]:
    """The next ``most`` texts, the jobs with the fewest left first: many texts of one do not hold up one of many."""
    now = time.perf_counter()
    slices: list[Slice] = []
    for job in sorted(jobs, key=lambda job: job.urgency(now)):
        if not most:
            break
        taken = job.texts[job.at : job.at + most]
        slices.append(Slice(job, taken))
        most -= len(taken)
    return slices
