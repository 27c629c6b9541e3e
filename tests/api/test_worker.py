"""The pool of requests: bounded, in order, off the loop; cancelled and late work is not done, accepted work is."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import httpx
import pytest

from rag.api.app import create_app
from rag.api.tickets import DroppedError, Ticket, current
from rag.api.worker import QueueFullError, RequestPool


def test_one_at_a_time_and_in_order_off_the_loop() -> None:
    threads: list[str] = []
    order: list[int] = []
    running = 0

    def work(number: int) -> int:
        nonlocal running
        running += 1
        assert running == 1
        time.sleep(0.002)
        threads.append(threading.current_thread().name)
        order.append(number)
        running -= 1
        return number

    async def main() -> None:
        worker = RequestPool(limit=20)
        done = await asyncio.gather(*(worker.run(lambda n=n: work(n)) for n in range(20)))
        assert [item.value for item in done] == order == list(range(20))
        assert done[-1].waited > done[0].waited
        await _until(lambda: worker.pending == 0)
        worker.close()

    asyncio.run(main())
    assert threading.current_thread().name not in threads
    assert len(set(threads)) == 1


def test_bound_cancellation_and_close() -> None:
    gate, began = threading.Event(), []

    def work(name: str) -> str:
        began.append(name)
        assert gate.wait(30)
        return name

    async def main() -> None:
        worker = RequestPool(limit=3)
        first, second, third = (asyncio.create_task(worker.run(lambda n=n: work(n))) for n in "abc")
        await _until(lambda: worker.pending == 3)
        with pytest.raises(QueueFullError, match=r"3 requests.*up to 3") as full:
            await worker.run(lambda: work("d"))
        assert full.value.retry_after >= 1
        second.cancel()
        await _until(lambda: worker.pending == 2)
        gate.set()
        worker.close()
        assert (await first).value == "a"
        assert (await third).value == "c"
        assert second.cancelled()

    asyncio.run(main())
    assert began == ["a", "c"]


def test_an_error_reaches_the_caller_and_the_next_work_runs() -> None:
    async def main() -> None:
        worker = RequestPool(limit=1)
        with pytest.raises(ZeroDivisionError):
            await worker.run(lambda: 1 // 0)
        await _until(lambda: worker.pending == 0)
        assert (await worker.run(lambda: 7)).value == 7
        worker.close()

    asyncio.run(main())


def test_several_at_once_each_with_its_own_ticket() -> None:
    both = threading.Barrier(2)

    def work() -> Ticket | None:
        both.wait(30)
        return current.get()

    async def main() -> None:
        pool = RequestPool(limit=2, threads=2)
        tickets = [Ticket(), Ticket(60)]
        done = await asyncio.gather(*(pool.run(work, ticket) for ticket in tickets))
        assert [item.value for item in done] == tickets
        assert current.get() is None
        pool.close()

    asyncio.run(main())


def test_late_work_is_not_begun() -> None:
    began: list[str] = []

    async def main() -> None:
        pool = RequestPool(limit=3)
        first = asyncio.create_task(pool.run(lambda: time.sleep(0.05)))
        late = asyncio.create_task(pool.run(lambda: began.append("late"), Ticket(0.01)))
        await first
        with pytest.raises(DroppedError):
            await late
        pool.close()

    asyncio.run(main())
    assert not began


def _body(query: str) -> dict[str, Any]:
    return {"query": query, "documents": ["b"]}


async def _until(condition: Any) -> None:
    """Let the loop run until ``condition`` holds; the suite's own time limit is the only one."""
    while not condition():
        await asyncio.sleep(0.001)


def test_full_queue_is_429_while_the_loop_stays_free(gated: Any, with_retriever: Any) -> None:
    app = create_app(pipeline=with_retriever("test-gated", concurrency=1), queue_limit=2)

    async def main() -> None:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client,
        ):
            await _until(lambda: app.state.service.loaded)
            gated.shut()
            first = asyncio.create_task(client.post("/v1/context", json=_body("first")))
            await _until(lambda: gated.began == ["first"])
            second = asyncio.create_task(client.post("/v1/context", json=_body("second")))
            await _until(lambda: app.state.service.pool.pending == 2)
            refused = await client.post("/v1/context", json=_body("third"))
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "overloaded")
            assert int(refused.headers["retry-after"]) >= 1
            health = await client.get("/health")
            assert (health.status_code, health.json()["status"], health.json()["pending"]) == (503, "overloaded", 2)
            assert (await client.get("/health/live")).status_code == 200
            bad = await client.post("/v1/context", json=_body(" "))
            assert bad.json()["error"]["code"] == "empty_query"
            gated.gate.set()
            assert [(await task).status_code for task in (first, second)] == [200, 200]
            assert (await client.get("/health")).json()["status"] == "ready"

    asyncio.run(main())
    assert gated.began == ["first", "second"]


def test_a_deadline_is_504_with_the_numbers_and_the_work_is_dropped(gated: Any, with_retriever: Any) -> None:
    app = create_app(pipeline=with_retriever("test-gated", concurrency=1))

    async def main() -> None:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client,
        ):
            await _until(lambda: app.state.service.loaded)
            gated.shut()
            first = asyncio.create_task(client.post("/v1/context", json=_body("first")))
            await _until(lambda: gated.began == ["first"])
            late = await client.post("/v1/context", json=_body("late"), headers={"X-Request-Timeout": "0.05"})
            assert (late.status_code, late.json()["error"]["code"]) == (504, "deadline_exceeded")
            assert "within 0.05 s" in late.json()["error"]["message"]
            assert "never began" in late.json()["error"]["message"]
            gated.gate.set()
            assert (await first).status_code == 200
            for bad in ("soon", "0", "-1", "nan", "inf"):
                refused = await client.post("/v1/context", json=_body("x"), headers={"X-Request-Timeout": bad})
                assert (refused.status_code, refused.json()["error"]["param"]) == (400, "X-Request-Timeout")
            assert 'rag_dropped_requests_total{why="timeout"} 1.0' in (await client.get("/metrics")).text

    asyncio.run(main())
    assert gated.began == ["first"]


def test_client_that_left_before_its_turn_is_dropped(gated: Any, with_retriever: Any) -> None:
    app = create_app(pipeline=with_retriever("test-gated", concurrency=1))
    body = b'{"query": "gone", "documents": ["b"]}'

    async def leave() -> None:
        messages = [{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}]

        async def receive() -> dict[str, Any]:
            return messages.pop(0)

        async def send(_: Any) -> None:
            return None

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/v1/context",
            "raw_path": b"/v1/context",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
            "server": ("service", 80),
            "client": ("client", 1),
            "root_path": "",
        }
        await app(scope, receive, send)

    async def main() -> None:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client,
        ):
            await _until(lambda: app.state.service.loaded)
            gated.shut()
            first = asyncio.create_task(client.post("/v1/context", json=_body("first")))
            await _until(lambda: gated.began == ["first"])
            await leave()
            await _until(lambda: app.state.service.pool.pending == 1)
            gated.gate.set()
            assert (await first).status_code == 200

    asyncio.run(main())
    assert gated.began == ["first"]
