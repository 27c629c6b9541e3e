"""Server-sent events: each stage as it finishes, then the whole answer, or the error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any

from fastapi import Request
from pydantic import ValidationError
from starlette.responses import Response, StreamingResponse

from rag.api import errors
from rag.api.connection import EVENTS, client_gone, disconnected
from rag.api.schemas import StageCandidate, StageEvent, StageKept
from rag.errors import ModelOutputError
from rag.results import StageTrace
from rag.types import CompressedDocument, ScoredDocument

_HEARTBEAT_SECONDS = 15.0
_HEARTBEAT = b": at work\n\n"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

# JSON need not escape these. No event ends at them, but many clients split there (Python's ``splitlines``).
_LINE_BREAKS = tuple((character.encode(), f"\\u{ord(character):04x}".encode()) for character in "\x85\u2028\u2029")

OnStage = Callable[[StageTrace, Sequence[ScoredDocument] | Sequence[CompressedDocument]], None]


async def stream(
    request: Request,
    positions: Mapping[str, int],
    start: Callable[[OnStage], Coroutine[Any, Any, bytes]],
) -> Response:
    """Answer with events: ``stage`` (`StageEvent`) for each stage, then ``result``, or ``error``.

    What fails before the first stage has finished is an ordinary error with its status.

    Args:
        request: its client; where it goes away, the work is cancelled.
        positions: the position of each document in the request, by id.
        start: begins the work, whose result is the JSON of the last event; it is given what to call after a stage.
    """
    loop = asyncio.get_running_loop()
    ready: asyncio.Queue[bytes] = asyncio.Queue()

    def on_stage(trace: StageTrace, outcome: Sequence[ScoredDocument] | Sequence[CompressedDocument]) -> None:
        try:
            data = stage_event(trace, outcome, positions).model_dump_json(exclude_none=True).encode()
        except ValidationError:
            raise ModelOutputError(f"{trace.name} gave a score that is not a finite number") from None
        loop.call_soon_threadsafe(ready.put_nowait, _event("stage", data))

    job = asyncio.ensure_future(start(on_stage))
    gone = asyncio.ensure_future(disconnected(request))
    first = asyncio.ensure_future(ready.get())
    try:
        await asyncio.wait({job, gone, first}, return_when=asyncio.FIRST_COMPLETED)
        if not first.done():
            if not job.done():
                raise client_gone()
            job.result()  # an error, or the answer to a request that no stage had to run for
    except BaseException:
        job.cancel()
        first.cancel()
        raise
    finally:
        gone.cancel()
    return StreamingResponse(_events(request, job, first, ready), media_type=EVENTS, headers=_HEADERS)


async def _events(
    request: Request, job: asyncio.Future[bytes], first: asyncio.Future[bytes], ready: asyncio.Queue[bytes]
) -> AsyncIterator[bytes]:
    following = first
    try:
        while True:
            done, _ = await asyncio.wait(
                {job, following}, timeout=_HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if following in done:
                yield following.result()
                following = asyncio.ensure_future(ready.get())
            elif job in done:
                following.cancel()
                while not ready.empty():  # put there before the job ended
                    yield ready.get_nowait()
                yield await _last(request, job)
                return
            else:
                yield _HEARTBEAT
    finally:
        following.cancel()
        job.cancel()


async def _last(request: Request, job: asyncio.Future[bytes]) -> bytes:
    error = job.exception()
    if error is None:
        return _event("result", job.result())
    return _event("error", bytes((await errors.response_to(request, error)).body))


def stage_event(
    trace: StageTrace,
    outcome: Sequence[ScoredDocument] | Sequence[CompressedDocument],
    positions: Mapping[str, int],
) -> StageEvent:
    """What a stage did and gave: documents with rank and score, from a compressor with the spans that it kept."""
    documents: list[StageCandidate | StageKept] = []
    for item in outcome:
        name = item.document.id
        if isinstance(item, CompressedDocument):
            documents.append(StageKept(id=name, index=positions[name], spans=item.spans))
        else:
            documents.append(StageCandidate(id=name, index=positions[name], rank=item.rank, score=item.score))
    return StageEvent.model_validate({**_fields(trace), "documents": documents})


def _fields(trace: StageTrace) -> dict[str, Any]:
    return {name: getattr(trace, name) for name in StageTrace.__slots__}


def _event(name: str, data: bytes) -> bytes:
    """One event of JSON, which holds no line break outside of its strings."""
    for raw, escaped in _LINE_BREAKS:
        data = data.replace(raw, escaped)
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
