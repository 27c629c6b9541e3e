"""The service under load against itself alone: one server process, the same requests, ratios.

``alone`` sends the requests one at a time; ``together`` sends them from many clients, each of which sends its next when
it has the answer to its last. Blocks are warm: every document was read before. By Little's law the
latency under such a load is (clients / throughput), so that with 32 clients a latency below 4 times the solo one
needs 8 times the throughput; ``paced`` is what users see at a given share of the load: requests arrive at random
moments (Poisson), at ``target`` times the rate of one client alone.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx
import psutil

from rag.errors import InputError
from rag.eval.latency import latency
from rag.types import Document

TIMEOUT_SECONDS = 600.0
_ANSWERED = "200"

_WORDS = ("why", "in short", "and when", "by whom", "exactly", "if known", "please", "for how long")


@dataclass(frozen=True, slots=True)
class Load:
    """What a series of requests gave: wall seconds of all, latency of each answer, and how many had which status.

    Where no answer came, the name of the error stands in for the status. ``resident_mib`` is the memory of the server's
    process and its children, once a second, where it was watched.
    """

    seconds: float
    latencies: tuple[float, ...]
    statuses: dict[str, int]
    resident_mib: tuple[float, ...] = field(default=())

    @property
    def throughput(self) -> float:
        """Answers (200) per second."""
        return len(self.latencies) / self.seconds

    def row(self) -> dict[str, Any]:
        """Flat figures for a table or JSON."""
        times = asdict(latency(self.latencies)) if self.latencies else {}
        return {
            "requests": sum(self.statuses.values()),
            "per_second": self.throughput,
            **{f"{name}_s": value for name, value in times.items()},
            "statuses": dict(sorted(self.statuses.items())),
        }

    def memory(self) -> dict[str, float]:
        """MiB at the start, at the end and at most, and how much it grew (see `growth`)."""
        resident = self.resident_mib
        return {
            "start_mib": resident[0],
            "end_mib": resident[-1],
            "peak_mib": max(resident),
            "growth": growth(resident),
        }


def bodies(
    documents: Sequence[Document], queries: Sequence[str], clients: int, each: int, passages: int, own_lists: bool
) -> list[list[dict[str, Any]]]:
    """The requests of each client: ``each`` different questions over ``passages`` documents.

    All clients ask over the same documents, or each over its own draw (seed 1).
    """
    draw = random.Random(1)
    shared = list(documents[:passages])
    made = []
    for client in range(clients):
        chosen = draw.sample(list(documents), passages) if own_lists else shared
        given = [{"id": item.id, "title": item.title, "text": item.text} for item in chosen]
        made.append(
            [
                {
                    "query": _question(queries, client, client * each + turn),
                    "documents": given,
                    "retrieve_k": passages,
                    "return_sentences": False,
                }
                for turn in range(each)
            ]
        )
    return made


def _question(queries: Sequence[str], client: int, number: int) -> str:
    """Questions that differ from client to client and from turn to turn."""
    return f"{queries[(client + number) % len(queries)]} {_WORDS[number % len(_WORDS)]}"


def reworded(requests: Sequence[dict[str, Any]], words: str) -> list[dict[str, Any]]:
    """The same requests with ``words`` behind each question, so that none of them is remembered from another series."""
    return [{**body, "query": f"{body['query']} {words}"} for body in requests]


async def alone(url: str, requests: Sequence[dict[str, Any]]) -> Load:
    """Send requests one after the other.

    Raises:
        InputError: none was answered; says what came instead.
    """
    load = await together(url, [requests])
    if not load.latencies:
        raise InputError(f"none of {len(requests)} requests was answered with 200, but with {load.statuses}")
    return load


async def together(url: str, requests: Sequence[Sequence[dict[str, Any]]]) -> Load:
    """Send the requests of each client one after the other, those of all clients at once."""
    latencies: list[float] = []
    statuses: Counter[str] = Counter()

    async with _client(url, len(requests)) as client:

        async def work(mine: Sequence[dict[str, Any]]) -> None:
            for body in mine:
                await _ask(client, body, latencies, statuses)

        started = time.perf_counter()
        await asyncio.gather(*map(work, requests))
        return Load(time.perf_counter() - started, tuple(latencies), dict(statuses))


async def paced(url: str, requests: Sequence[dict[str, Any]], per_second: float) -> Load:
    """Send requests at random moments (exponential pauses, seed 1), whether earlier ones were answered or not."""
    latencies: list[float] = []
    statuses: Counter[str] = Counter()
    draw = random.Random(1)
    async with _client(url, len(requests)) as client:
        started = time.perf_counter()
        tasks = []
        for body in requests:
            tasks.append(asyncio.create_task(_ask(client, body, latencies, statuses)))
            await asyncio.sleep(draw.expovariate(per_second))
        await asyncio.gather(*tasks)
        return Load(time.perf_counter() - started, tuple(latencies), dict(statuses))


async def saturated(
    url: str,
    requests: Sequence[Sequence[dict[str, Any]]],
    seconds: float,
    process: int,
    step: Callable[[float], None] = lambda _: None,
) -> Load:
    """Keep all clients busy for ``seconds``; ``step`` is told the seconds passed, ``process`` is the server's.

    A client that gets anything but an answer waits a second before its next request.
    """
    latencies: list[float] = []
    statuses: Counter[str] = Counter()
    resident: list[float] = []
    started = time.perf_counter()
    async with _client(url, len(requests)) as client:

        async def work(mine: Sequence[dict[str, Any]]) -> None:
            turn = 0
            while time.perf_counter() - started < seconds:
                if await _ask(client, mine[turn % len(mine)], latencies, statuses) != _ANSWERED:
                    await asyncio.sleep(1)
                turn += 1

        async def watch() -> None:
            while True:
                with suppress(psutil.NoSuchProcess):  # it has ended, or a child has just now
                    resident.append(resident_mib(process))
                step(time.perf_counter() - started)
                await asyncio.sleep(1)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*map(work, requests))
        watching.cancel()
    return Load(time.perf_counter() - started, tuple(latencies), dict(statuses), tuple(resident))


def resident_mib(process: int) -> float:
    """Resident memory of a process and its children."""
    parent = psutil.Process(process)
    return float(sum(item.memory_info().rss for item in [parent, *parent.children(recursive=True)])) / 2**20


def growth(resident: Sequence[float]) -> float:
    """How much memory grew: the mean of the last fifth over that of the second, less 1 (the first warms up)."""
    fifth = max(1, len(resident) // 5)
    first, last = resident[fifth : 2 * fifth] or resident[:1], resident[-fifth:]
    return (sum(last) / len(last)) / (sum(first) / len(first)) - 1


def comparison(solo: Load, many: Load) -> dict[str, float]:
    """Throughput and latency of ``many`` over those of ``solo``; empty where nothing was answered."""
    if not many.latencies:
        return {}
    before, after = latency(solo.latencies), latency(many.latencies)
    return {
        "throughput_ratio": many.throughput / solo.throughput,
        "p50_ratio": after.p50 / before.p50,
        "p95_ratio": after.p95 / before.p50,
    }


def overhead(url: str, requests: Sequence[dict[str, Any]], call: Callable[[dict[str, Any]], Any]) -> dict[str, float]:
    """Median seconds that HTTP adds to ``call`` (the library, on the same request), alternating the two."""
    over_http, within = [], []
    with httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS) as client:
        for body in requests:
            started = time.perf_counter()
            client.post("/v1/context", json=body).raise_for_status()
            over_http.append(time.perf_counter() - started)
            started = time.perf_counter()
            call(body)
            within.append(time.perf_counter() - started)
    http, library = latency(over_http).p50, latency(within).p50
    return {"http_s": http, "library_s": library, "overhead_s": http - library}


async def _ask(client: httpx.AsyncClient, body: dict[str, Any], latencies: list[float], statuses: Counter[str]) -> str:
    """Send one request; its status, or the name of the error where no answer came."""
    started = time.perf_counter()
    try:
        status = str((await client.post("/v1/context", json=body)).status_code)
    except httpx.TransportError as error:
        status = type(error).__name__
    statuses[status] += 1
    if status == _ANSWERED:
        latencies.append(time.perf_counter() - started)
    return status


def _client(url: str, connections: int) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(base_url=url, timeout=TIMEOUT_SECONDS, limits=limits)
