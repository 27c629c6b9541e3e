"""The model thread over the real engine: shared passes, turns between slices, failures that stay with their cause."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from rag.api.batched import BatchedEmbedder, BatchedEngine
from rag.api.model_thread import ModelThread
from rag.api.tickets import DroppedError, Ticket, current
from rag.attention.engine import AttentionEngine, AttentionRequest
from rag.attention.types import AttentionSpec, Head
from rag.errors import DeviceMemoryError, InputError
from rag.pipeline import Pipeline
from rag.types import Document, Query

SPEC = AttentionSpec((Head(2, 1), Head(3, 4)), calibrated=True)
DOCUMENTS = (
    Document("depth", "The harbour is fourteen metres deep."),
    Document("boats", "Boats are painted blue."),
    Document("bread", "Bread is baked before dawn."),
)
LONG = tuple(Document(f"long-{i}", f"Sand number {i} is yellow and dry. " * 12) for i in range(12))


class Watch:
    """Counts passes, as the metrics do."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def batch(self, requests: int, tokens: int, padded: int) -> None:
        assert padded >= tokens > 0
        self.batches.append(requests)

    def waited(self, seconds: float) -> None:
        assert seconds >= 0


class Faulty:
    """The real engine, with a fault that a test puts in front of its passes."""

    def __init__(self, engine: AttentionEngine) -> None:
        self._engine = engine
        self.fault: Callable[[Sequence[AttentionRequest]], None] = lambda _: None
        self.queries: list[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def attend_many(self, requests: Sequence[AttentionRequest], **options: Any) -> Any:
        self.queries.append([request.query.text for request in requests])
        self.fault(requests)
        return self._engine.attend_many(requests, **options)


@pytest.fixture
def inner(client: TestClient, pipeline: Pipeline) -> Faulty:
    assert client
    return Faulty(pipeline.resources.engine())  # type: ignore[arg-type]


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def thread(inner: Faulty, pipeline: Pipeline, watch: Watch) -> Iterator[ModelThread]:
    made = ModelThread(
        lambda: inner,  # type: ignore[arg-type,return-value]
        pipeline.resources.embedder,
        batch_tokens=10_000,
        batch_requests=8,
        observer=watch,
    )
    yield made
    made.close()


@pytest.fixture
def engine(inner: Faulty, thread: ModelThread) -> BatchedEngine:
    return BatchedEngine(lambda: inner, thread)  # type: ignore[arg-type,return-value]


def _together(engine: BatchedEngine, inner: Faulty, calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results (or errors) of calls that all wait while a first pass is held."""
    begun, go = threading.Event(), threading.Event()

    def hold(requests: Sequence[AttentionRequest]) -> None:
        if requests[0].query.text == "hold":
            begun.set()
            assert go.wait(60)

    fault, inner.fault = inner.fault, lambda requests: (hold(requests), fault(requests))[0]
    with ThreadPoolExecutor(len(calls) + 1) as pool:
        pool.submit(engine.attend, Query("hold"), DOCUMENTS, SPEC)
        assert begun.wait(60)
        futures = [pool.submit(call) for call in calls]
        deadline = time.monotonic() + 60
        while engine._thread.waiting < len(calls) and time.monotonic() < deadline:
            time.sleep(0.001)
        go.set()
        return [future.exception() or future.result() for future in futures]


def test_waiting_requests_share_a_pass_in_whatever_order_and_get_their_own_answers(
    engine: BatchedEngine, inner: Faulty, watch: Watch
) -> None:
    orders = [DOCUMENTS, DOCUMENTS[::-1], (DOCUMENTS[1], DOCUMENTS[2], DOCUMENTS[0])]
    queries = [Query(text) for text in ("How deep is it?", "What colour are boats?", "When is bread baked?")]
    expected = [inner._engine.attend(*pair, SPEC) for pair in zip(queries, orders, strict=True)]
    found = _together(
        engine,
        inner,
        [lambda q=q, d=d: engine.attend(q, d, SPEC) for q, d in zip(queries, orders, strict=True)],
    )
    assert watch.batches == [1, 3]
    for mine, alone, order in zip(found, expected, orders, strict=True):
        assert mine.documents == order
        assert (mine.query_tokens, mine.blocks, mine.heads) == (alone.query_tokens, alone.blocks, alone.heads)
        assert torch.equal(mine.token_ids, alone.token_ids)
        torch.testing.assert_close(mine.rows["mean"], alone.rows["mean"], rtol=1e-3, atol=1e-6)
        torch.testing.assert_close(mine.calibration["mean"], alone.calibration["mean"], rtol=1e-3, atol=1e-6)


def test_a_failing_request_fails_alone(engine: BatchedEngine, inner: Faulty) -> None:
    def fault(requests: Sequence[AttentionRequest]) -> None:
        if any(request.query.text == "guilty" for request in requests):
            raise ZeroDivisionError

    inner.fault = fault
    texts = ["one", "two", "guilty", "four"]
    found = _together(engine, inner, [lambda t=t: engine.attend(Query(t), DOCUMENTS, SPEC) for t in texts])
    assert [type(item).__name__ for item in found] == ["AttentionMap"] * 2 + ["ZeroDivisionError", "AttentionMap"]
    assert engine._thread.healthy


def test_out_of_memory_alone_is_a_typed_error_and_no_fault_of_the_thread(engine: BatchedEngine, inner: Faulty) -> None:
    def fault(_: Sequence[AttentionRequest]) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    inner.fault = fault
    for _ in range(4):
        with pytest.raises(DeviceMemoryError):
            engine.attend(Query("q"), DOCUMENTS, SPEC)
    assert engine._thread.healthy


def test_an_engine_that_always_fails_is_told_and_recovery_too(engine: BatchedEngine, inner: Faulty) -> None:
    def fault(_: Sequence[AttentionRequest]) -> None:
        raise ZeroDivisionError

    inner.fault = fault
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            engine.attend(Query("q"), DOCUMENTS, SPEC)
    assert not engine._thread.healthy
    inner.fault = lambda _: None
    with pytest.raises(InputError):
        engine.attend(Query("q"), [], SPEC)
    assert not engine._thread.healthy
    engine.attend(Query("q"), DOCUMENTS, SPEC)
    assert engine._thread.healthy


def test_a_dead_thread_is_started_again(engine: BatchedEngine, inner: Faulty) -> None:
    def fault(requests: Sequence[AttentionRequest]) -> None:
        if requests[0].query.text == "kill":
            raise SystemExit

    inner.fault = fault
    with pytest.raises(RuntimeError, match="SystemExit"):
        engine.attend(Query("kill"), DOCUMENTS, SPEC)
    assert engine.attend(Query("again"), DOCUMENTS, SPEC).documents == DOCUMENTS
    assert engine._thread.healthy


def test_a_long_unknown_list_lets_others_in_between(engine: BatchedEngine, inner: Faulty) -> None:
    inner._engine.clear_cache()
    inner._engine.attend(Query("warm"), DOCUMENTS, SPEC)
    assert inner._engine.unread_tokens(LONG, SPEC) > 500
    encoder = inner._engine._encoder
    whole, encoder._batch_tokens = encoder._batch_tokens, 200
    try:
        with ThreadPoolExecutor(2) as pool:
            began = threading.Event()
            inner.fault = lambda requests: began.set() if requests[0].query.text == "long" else None
            long = pool.submit(engine.attend, Query("long"), LONG, SPEC)
            assert began.wait(60)
            short = pool.submit(engine.attend, Query("short"), DOCUMENTS, SPEC)
            short.result(60)
            assert not long.done()
            answer = long.result(120)
    finally:
        encoder._batch_tokens = whole
    assert answer.encoded_tokens > 500
    assert answer.cached_blocks == 0
    assert inner._engine.unread_tokens(LONG, SPEC) == 0
    assert engine.attend(Query("again"), LONG, SPEC).cached_blocks == len(LONG)


def test_nobody_reads_for_a_client_that_left(engine: BatchedEngine, inner: Faulty) -> None:
    ticket = Ticket()

    def leave() -> None:
        current.set(ticket)
        engine.attend(Query("gone"), DOCUMENTS, SPEC)

    ticket.cancel()
    (gone, stayed) = _together(engine, inner, [leave, lambda: engine.attend(Query("here"), DOCUMENTS, SPEC)])
    assert isinstance(gone, DroppedError)
    assert stayed.documents == DOCUMENTS
    assert ["gone"] not in inner.queries
    assert not any("gone" in batch for batch in inner.queries)


def test_texts_of_several_requests_are_embedded_together_and_come_back_apart(
    thread: ModelThread, pipeline: Pipeline
) -> None:
    embedder = BatchedEmbedder(pipeline.resources.embedder, thread)
    plain = pipeline.resources.embedder()
    texts = [f"Passage {i} about harbours. " * (1 + i % 3) for i in range(40)]
    with ThreadPoolExecutor(3) as pool:
        many = pool.submit(embedder.encode_windows, texts)
        one = pool.submit(embedder.encode, ["How deep?"])
        some = pool.submit(embedder.encode_windows, ["Sand and wind. " * 200, "b"])
        (matrix, owners), (windows, of) = many.result(), some.result()
    expected, expected_owners = plain.encode_windows(texts)
    np.testing.assert_allclose(matrix, expected, atol=1e-5)
    np.testing.assert_array_equal(owners, expected_owners)
    np.testing.assert_allclose(one.result(), plain.encode(["How deep?"]), atol=1e-5)
    assert of[-1] == 1
    assert len(windows) == len(of) > 2
    assert embedder.encode([]).shape == (0, 384)


def test_token_counts_are_the_engines_own(engine: BatchedEngine, inner: Faulty) -> None:
    texts = ["a b c", "", "naïve 你好", "a b c"]
    assert engine.count_tokens(texts) == engine.count_tokens(texts) == inner._engine.count_tokens(texts)
    assert engine.layers == inner._engine.layers


def test_closing_finishes_what_waits(engine: BatchedEngine, inner: Faulty) -> None:
    def close_and_ask() -> Any:
        return engine.attend(Query("last"), DOCUMENTS, SPEC)

    (answer,) = _together(engine, inner, [close_and_ask])
    engine._thread.close()
    assert answer.documents == DOCUMENTS
    with pytest.raises(DroppedError):
        engine.attend(Query("too late"), DOCUMENTS, SPEC)
