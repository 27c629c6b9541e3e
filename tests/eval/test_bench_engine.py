"""Timings and growth exponents, on made-up numbers."""

from __future__ import annotations

import itertools

import pytest

from rag.eval import bench_engine
from rag.eval.bench_engine import TRIES, exponents, growth, timed


def clock(monkeypatch, durations: list[float]) -> None:
    """A clock by which the runs take these seconds."""
    ticks = itertools.chain.from_iterable((0.0, taken) for taken in durations)
    monkeypatch.setattr(bench_engine.time, "perf_counter", lambda: next(ticks))


def test_steady_repeats_are_measured_once(monkeypatch):
    clock(monkeypatch, [1.0, 1.1])
    assert timed(lambda: None, 2).seconds == (1.0, 1.1)


def test_noisy_repeats_are_measured_again_until_they_are_steady(monkeypatch):
    clock(monkeypatch, [1.0, 2.0, 1.0, 1.05])
    timing = timed(lambda: None, 2)
    assert timing.seconds == (1.0, 1.05)
    assert not timing.noisy


def test_the_steadiest_of_the_tries_counts_and_is_marked(monkeypatch):
    assert TRIES == 3
    clock(monkeypatch, [1.0, 2.0, 1.0, 1.5, 1.0, 3.0])
    timing = timed(lambda: None, 2)
    assert timing.seconds == (1.0, 1.5)
    assert timing.noisy


def test_growth_is_the_exponent_of_a_power():
    assert growth([1, 10, 100], [3.0, 30.0 * 10**0.5, 300.0 * 10]) == pytest.approx(1.5)


def test_exponents_leave_out_small_lists_and_what_was_not_measured():
    rows = [
        {"passages": n, "published_s": seconds, "cold_s": 2.0 * n, "warm_s": n**0.5, "cache_mib": float(n)}
        for n, seconds in ((10, 99.0), (25, 1.0), (100, None), (400, None))
    ]
    found = exponents(rows)
    assert found == pytest.approx({"cold_s": 1.0, "warm_s": 0.5, "cache_mib": 1.0})
