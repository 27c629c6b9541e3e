"""Wall times of single queries, summed up the way people compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag.errors import InputError


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds per query: mean and percentiles (linear interpolation)."""

    mean: float
    p50: float
    p95: float
    p99: float


def latency(seconds: Sequence[float]) -> Latency:
    """Sum up wall times. Raises `InputError` where there are none."""
    import numpy as np

    if not len(seconds):
        raise InputError("no wall times given")
    p50, p95, p99 = np.percentile(seconds, [50, 95, 99]).tolist()
    return Latency(float(np.mean(seconds)), p50, p95, p99)
