"""Which job goes next: pure decisions over jobs."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from rag.api.scheduling import (
    AGEING_SECONDS,
    AttentionJob,
    TextsJob,
    known_batch,
    living,
    next_unknown,
    text_slices,
)
from rag.api.tickets import DroppedError, Ticket

_numbers = count()


def job(tokens: int, unknown: int = 0, listed: str = "", waited: float = 0.0) -> AttentionJob:
    made = AttentionJob(Ticket(), None, (listed or f"list {next(_numbers)}").encode(), tokens, lambda: unknown)
    made.refresh()
    made.queued -= waited
    return made


JOBS = st.lists(
    st.builds(
        job,
        st.integers(1, 500),
        st.sampled_from([0, 0, 30]),
        st.sampled_from("abcdef"),
        st.floats(0, 60),
    ),
    max_size=20,
)


@settings(deadline=None)
@given(JOBS, st.integers(1, 1000), st.integers(1, 8))
def test_a_batch_keeps_to_its_budgets_and_is_never_empty_without_need(
    jobs: list[AttentionJob], most_tokens: int, most_jobs: int
) -> None:
    batch = known_batch(jobs, most_tokens, most_jobs)
    assert len(batch) <= most_jobs
    assert len(set(map(id, batch))) == len(batch)
    assert not any(item.unknown for item in batch)
    assert bool(batch) == any(not item.unknown for item in jobs)
    longest: dict[bytes, int] = {}
    for item in batch:
        longest.setdefault(item.listed, item.tokens)
    assert sum(longest.values()) <= most_tokens or len(longest) == 1


def test_equal_lists_count_once() -> None:
    same = [job(100, listed="a") for _ in range(5)]
    assert len(known_batch([*same, job(90, listed="b")], 190, 32)) == 6
    assert len(known_batch([*same, job(101, listed="b")], 200, 32)) == 5


def test_small_goes_first_and_none_waits_for_ever() -> None:
    large, small = job(50_000), job(100)
    assert known_batch([large, small], 100, 32) == [small]
    waiting = job(50_000, waited=AGEING_SECONDS * 1000)
    assert known_batch([small, waiting], 100, 32)[0] is waiting


def test_unknown_documents_never_share_a_pass_with_known_ones() -> None:
    cold, colder, warm = job(100, unknown=100), job(9000, unknown=9000), job(2000)
    assert known_batch([cold, colder, warm], 10**6, 32) == [warm]
    assert next_unknown([colder, warm, cold]) is cold
    assert next_unknown([warm]) is None


@settings(deadline=None)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=8), st.integers(1, 40))
def test_slices_of_texts_cover_every_text_once_in_order(sizes: list[int], most: int) -> None:
    jobs = [TextsJob(Ticket(), "encode", [f"{number}-{i}" for i in range(size)]) for number, size in enumerate(sizes)]
    seen: list[str] = []
    while left := [item for item in jobs if item.size]:
        slices = text_slices(left, most)
        assert 0 < sum(len(item.texts) for item in slices) <= most
        for item in slices:
            seen += item.texts
            item.job.at += len(item.texts)
    assert sorted(seen) == sorted(text for item in jobs for text in item.texts)
    for number, item in enumerate(jobs):
        assert [text for text in seen if text.startswith(f"{number}-")] == list(item.texts)


def test_one_text_is_not_held_up_by_many() -> None:
    many, one = TextsJob(Ticket(), "encode", ["x"] * 500), TextsJob(Ticket(), "encode", ["y"])
    first, second = text_slices([many, one], 32)
    assert (first.job, second.job, len(second.texts)) == (one, many, 31)


def test_dead_jobs_are_told_and_left_out() -> None:
    gone, late, alive = job(1), job(1), job(1)
    gone.ticket.cancel()
    late.ticket = Ticket(timeout=1e-9)
    done = job(1)
    done.finish("answer")
    assert living([gone, late, alive, done]) == [alive]
    assert isinstance(gone.future.exception(0), DroppedError)
    assert isinstance(late.future.exception(0), DroppedError)
    done.fail(ValueError())
    assert done.future.result() == "answer"
