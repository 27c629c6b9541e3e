"""The one thread that runs the models: it takes what waits, lets requests share passes, and survives failures."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rag.api.scheduling import (
    AttentionJob,
    Job,
    Slice,
    TextsJob,
    known_batch,
    living,
    next_unknown,
    text_slices,
)
from rag.api.threads import use_all
from rag.api.tickets import DroppedError, Ticket, current
from rag.errors import DeviceMemoryError, RagError

if TYPE_CHECKING:
    from rag.attention.engine import AttentionEngine
    from rag.attention.types import AttentionMap
    from rag.embedding import TextEmbedder

log = logging.getLogger("rag.api")

T = TypeVar("T")

LINGER_SECONDS = 0.01
"""The longest wait for requests that are on their way to the models already; none where there are none."""

_TEXTS_PER_SLICE = 32
_FAULTS = 3
_RESTART_SECONDS = 0.1


class Observer(Protocol):
    """What is told of the thread's work (`rag.api.metrics.Metrics`)."""

    def batch(self, requests: int, tokens: int, padded: int) -> None:
        """A pass was run for so many requests; ``padded``: the tokens if all were as long as the longest."""
        ...

    def waited(self, seconds: float) -> None:
        """A job had waited so long when its turn came."""
        ...


class ModelThread:
    """Runs the attention engine and the embedder for all requests, in one thread of its own.

    An idle thread begins at once with what comes. A busy one finds several jobs when it is done, and reads
    them together (see `rag.api.scheduling`). A pass that fails is split until the guilty request fails alone. Where
    the thread itself dies it is started again, and the jobs it had in hand fail.

    Args:
        engine, embedder: the loaded models, asked for when they are first needed.
        batch_tokens: most document tokens in one attention pass (a larger request is read alone).
        batch_requests: most requests in one pass.
        observer: told of every pass.
        threads: CPU threads of torch for the passes; None for all there are.
    """

    def __init__(
        self,
        engine: Callable[[], AttentionEngine],
        embedder: Callable[[], TextEmbedder],
        *,
        batch_tokens: int,
        batch_requests: int,
        observer: Observer,
        threads: int | None = None,
    ) -> None:
        self._engine = engine
        self._embedder = embedder
        self._batch_tokens = batch_tokens
        self._batch_requests = batch_requests
        self._observer = observer
        self._threads = threads
        self._attention: list[AttentionJob] = []
        self._texts: list[TextsJob] = []
        self._running: list[Job] = []
        self._coming: set[Ticket] = set()
        self._changed = threading.Condition()
        self._closing = False
        self._faults = 0
        self._dead = False
        self._thread: threading.Thread | None = None

    # ---- asked by requests, in their threads ---------------------------------------------------------------------

    def read(self, request: Any, *, listed: bytes, tokens: int, unread: Callable[[], int]) -> AttentionMap:
        """The map of an `AttentionRequest`, when its turn has come; the arguments are those of `AttentionJob`.

        Raises:
            DroppedError: nobody waits for the request any more.
            RagError: what the engine raised for this request alone.
        """
        job = AttentionJob(current.get() or Ticket(), request, listed, tokens, unread)
        job.refresh()
        answer: AttentionMap = self._wait(job, self._attention)
        return answer

    def embed(self, kind: str, texts: Sequence[str]) -> Any:
        """What the embedder's method ``kind`` (``encode`` or ``encode_windows``) gives for ``texts``."""
        return self._wait(TextsJob(current.get() or Ticket(), kind, texts), self._texts)

    @contextmanager
    def coming(self) -> Iterator[None]:
        """While this lasts, the current request is on its way to ask for attention, once."""
        ticket = current.get() or Ticket()
        with self._changed:
            self._coming.add(ticket)
        try:
            yield
        finally:
            self._arrived(ticket)

    def _arrived(self, ticket: Ticket) -> None:
        with self._changed:
            self._coming.discard(ticket)
            self._changed.notify_all()

    def _wait(self, job: Job, queue: list[Any]) -> Any:
        with self._changed:
            if self._closing:
                raise DroppedError
            job.coming = job.ticket in self._coming
            self._coming.discard(job.ticket)
            queue.append(job)
            if self._thread is None:
                self._start()
            self._changed.notify_all()
        return job.future.result()

    # ---- asked by the service ------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Jobs that wait for their turn."""
        return len(self._attention) + len(self._texts)

    @property
    def healthy(self) -> bool:
        """Whether the thread lives, and did not fail on the last few requests for reasons of its own."""
        return not self._dead and self._faults < _FAULTS

    def close(self) -> None:
        """Finish what waits and end the thread. Blocks."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        while self._thread is not None and self._thread.is_alive():  # one that died may have been started again
            self._thread.join()

    # ---- in the thread -------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._dead = False
        self._thread = threading.Thread(target=self._live, name="rag-model", daemon=True)
        self._thread.start()

    def _live(self) -> None:
        try:
            use_all(self._threads)
            self._work()
        except BaseException as error:
            # Not one request's failure but the thread's own end: those in hand are lost, the rest goes on.
            log.exception("the model thread died and is started again")
            self._dead = True
            for job in self._running:
                job.fail(RuntimeError(f"the model thread died: {type(error).__name__}"))
            self._running.clear()
            time.sleep(_RESTART_SECONDS)
            self._start()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._drop()
                self._changed.wait_for(lambda: self.waiting or self._closing)
                if not self.waiting:
                    return
                self._changed.wait_for(self._nobody_coming, LINGER_SECONDS)
            self._turn()

    def _nobody_coming(self) -> bool:
        return not self._coming or self.waiting >= self._batch_requests

    def _turn(self, below: float = float("inf")) -> None:
        """Some texts, then what is known, then a job with something unknown; each only where ``size`` is below."""
        self._embed(self._take(lambda: text_slices(self._texts, _TEXTS_PER_SLICE)))
        for job in self._take(lambda: list(self._attention)):
            if job.unknown:
                job.refresh()  # what another request read meanwhile is known
        self._read(self._take(lambda: self._known(below)))
        self._read(self._take(lambda: self._unknown(below)))

    def _take(self, choose: Callable[[], list[T]]) -> list[T]:
        """What ``choose`` chooses of the jobs that somebody waits for."""
        with self._changed:
            self._drop()
            return choose()

    def _drop(self) -> None:
        self._attention[:] = living(self._attention)
        self._texts[:] = living(self._texts)

    def _known(self, below: float) -> list[AttentionJob]:
        small = [job for job in self._attention if job.size < below]
        return self._removed(known_batch(small, self._batch_tokens, self._batch_requests))

    def _unknown(self, below: float) -> list[AttentionJob]:
        job = next_unknown([job for job in self._attention if job.size < below])
        return self._removed([job] if job else [])

    def _removed(self, jobs: list[AttentionJob]) -> list[AttentionJob]:
        for job in jobs:
            self._attention.remove(job)
            self._observer.waited(time.perf_counter() - job.queued)
        return jobs

    def _read(self, jobs: Sequence[AttentionJob]) -> None:
        """One pass for all ``jobs``; where it fails, one for each half."""
        if not jobs:
            return
        size = sum(job.size for job in jobs)

        def between() -> None:
            if not living(jobs):
                raise DroppedError
            # What may come in between is at most half as large, so that turns within turns do not go deep.
            self._turn(below=size / 2)

        self._running.extend(jobs)
        failure: Exception | None = None
        try:
            maps = self._engine().attend_many([job.request for job in jobs], between=between)
        except Exception as error:
            failure = error
        # Out of the handler: the traceback of a failed pass keeps its tensors alive.
        if failure is None:
            self._faults = 0
            self._count(jobs)
            for job, answer in zip(jobs, maps, strict=True):
                job.finish(answer)
        elif len(jobs) > 1 and not isinstance(failure, DroppedError):
            log.warning("a pass for %d requests failed (%s): each half alone", len(jobs), type(failure).__name__)
            failure = None
            self._read(jobs[: len(jobs) // 2])
            self._read(jobs[len(jobs) // 2 :])
        else:
            self._blame(jobs, failure)
        self._running = [job for job in self._running if job not in jobs]

    def _count(self, jobs: Sequence[AttentionJob]) -> None:
        lengths = [job.tokens for job in jobs]
        self._observer.batch(len(jobs), sum(lengths), max(lengths) * len(lengths))

    def _embed(self, slices: Sequence[Slice]) -> None:
        """The slices of each kind together; where that fails, each alone."""
        for kind in dict.fromkeys(item.job.kind for item in slices):
            same = [item for item in slices if item.job.kind == kind]
            self._running.extend(item.job for item in same)
            try:
                parts = _embedded(self._embedder(), kind, [item.texts for item in same])
            except Exception as error:
                if len(same) > 1:
                    for item in same:
                        self._embed([item])
                else:
                    self._blame([same[0].job], error)  # and `living` takes it off the queue
            else:
                self._faults = 0
                for item, part in zip(same, parts, strict=True):
                    self._advance(item, part)
            self._running = [job for job in self._running if job not in {item.job for item in same}]

    def _advance(self, item: Slice, part: Any) -> None:
        job = item.job
        if not job.at:
            self._observer.waited(time.perf_counter() - job.queued)
        job.parts.append(part)
        job.at += len(item.texts)
        if job.at == len(job.texts):
            if job.coming:  # with its texts embedded, it will soon ask for attention
                with self._changed:
                    self._coming.add(job.ticket)
            job.finish(_joined(job.kind, job.parts))

    def _blame(self, jobs: Sequence[Job], error: Exception) -> None:
        from rag.attention.memory import is_out_of_memory

        if is_out_of_memory(error):
            error = DeviceMemoryError("the request does not fit into the device's memory, not even alone")
        elif not isinstance(error, RagError | DroppedError):
            self._faults += 1
        for job in jobs:
            job.fail(error)


def _embedded(embedder: TextEmbedder, kind: str, texts: Sequence[Sequence[str]]) -> list[Any]:
    """What the embedder gives for each list of texts, asked for all at once."""
    import numpy as np

    flat = [text for some in texts for text in some]
    borders = np.cumsum([0, *map(len, texts)])
    if kind == "encode":
        matrix = embedder.encode(flat)
        return [matrix[start:end] for start, end in pairwise(borders)]
    matrix, owners = embedder.encode_windows(flat)
    rows = np.searchsorted(owners, borders)
    return [(matrix[rows[i] : rows[i + 1]], owners[rows[i] : rows[i + 1]] - borders[i]) for i in range(len(texts))]


def _joined(kind: str, parts: Sequence[Any]) -> Any:
    """The answers for consecutive slices of one list of texts as one answer."""
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    if kind == "encode":
        return np.concatenate(parts)
    owners: list[Any] = []
    for _, of in parts:
        owners.append(of + (int(owners[-1][-1]) + 1 if owners else 0))
    return np.concatenate([matrix for matrix, _ in parts]), np.concatenate(owners)
