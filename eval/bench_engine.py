"""The engine against in-context reranking as published: one process, one model, the same passages, ratios.

``published`` is ICR as its authors run it (Chen et al., ICLR 2025): all passages in one causal prompt, all
layers, all heads, one pass for the content-free query and one for the query, nothing kept between queries. It
runs through our own packed kernels, which makes it faster than the reference code and the ratios smaller.
``cold`` reads isolated blocks that were never seen before; ``warm`` has read them for an earlier query.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil
import torch

from rag.attention.decoder import Decoder
from rag.attention.engine import AttentionEngine, AttentionRequest
from rag.attention.store import Precision
from rag.attention.template import ICR_TEMPLATE
from rag.attention.types import AttentionSpec
from rag.errors import LimitError
from rag.sentences import sentences
from rag.types import Document, Query

QUERIES = (
    "who designed the first alternating current motor",
    "how many people lived in the city before the war",
    "which team won the championship and by how many points",
    "what happens to the temperature when the pressure of the gas rises",
)
NOISY_SPREAD = 0.15
TRIES = 3
"""How often something is measured while its repeats differ by more than `NOISY_SPREAD`."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of repeated runs. ``spread`` is (max - min) / median; above `NOISY_SPREAD` the machine was not quiet."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median seconds."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Relative width of the runs."""
        return (max(self.seconds) - min(self.seconds)) / self.median

    @property
    def noisy(self) -> bool:
        """Whether the machine did something else meanwhile."""
        return self.spread > NOISY_SPREAD


@dataclass(frozen=True, slots=True)
class Size:
    """One number of passages: seconds per query and what memory holds."""

    passages: int
    tokens: int
    published: Timing | None
    cold: Timing
    warm: Timing
    cache_bytes: int
    resident_bytes: int

    def row(self) -> dict[str, Any]:
        """Flat figures for a table or JSON; None where the causal prompt is longer than the model's positions."""
        published = self.published.median if self.published else None
        timings = [timing for timing in (self.published, self.cold, self.warm) if timing]
        return {
            "passages": self.passages,
            "tokens": self.tokens,
            "published_s": published,
            "cold_s": self.cold.median,
            "warm_s": self.warm.median,
            "published_over_cold": published / self.cold.median if published else None,
            "published_over_warm": published / self.warm.median if published else None,
            "cold_over_warm": self.cold.median / self.warm.median,
            "cache_mib": self.cache_bytes / 2**20,
            "resident_mib": self.resident_bytes / 2**20,
            "noisy": any(timing.noisy for timing in timings),
        }


def passages(
    texts: Sequence[str], count: int, tokens: int, count_tokens: Callable[[Sequence[str]], list[int]]
) -> list[Document]:
    """``count`` distinct passages of about ``tokens`` tokens: sentences of ``texts`` drawn at random (seed 1)."""
    pool = [text[start:end].strip() for text in texts for start, end in sentences(text)]
    sizes = dict(zip(pool, count_tokens(pool), strict=True))
    draw = random.Random(1)
    made = []
    for number in range(count):
        parts: list[str] = []
        length = 0
        while length < tokens:
            parts.append(draw.choice(pool))
            length += sizes[parts[-1]]
        made.append(Document(str(number), " ".join(parts)))
    return made


def timed(run: Callable[[], Any], repeats: int, before: Callable[[], Any] = lambda: None) -> Timing:
    """Run ``repeats`` times; ``before`` is not timed. Repeats that differ too much are measured again, at most
    `TRIES` times in all, and the steadiest of these is what counts.
    """
    tries: list[Timing] = []
    while not tries or (tries[-1].noisy and len(tries) < TRIES):
        seconds = []
        for _ in range(repeats):
            before()
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        tries.append(Timing(tuple(seconds)))
    return min(tries, key=lambda timing: timing.spread)


def growth(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Exponent b of values ~ sizes ** b, by least squares on logarithms."""
    return statistics.linear_regression([math.log(x) for x in sizes], [math.log(y) for y in values]).slope


def exponents(rows: Sequence[dict[str, Any]], least: int = 25) -> dict[str, float]:
    """Growth of the figures of `Size.row` with the number of passages, over the rows from ``least`` passages on;
    none for what has fewer than two such rows.
    """
    grown = {}
    for name in ("published_s", "cold_s", "warm_s", "cache_mib"):
        points = [(row["passages"], row[name]) for row in rows if row["passages"] >= least and row[name] is not None]
        if len(points) > 1:
            grown[name] = growth(*zip(*points, strict=True))
    return grown


def sizes(
    model: str | Decoder,
    texts: Sequence[str],
    counts: Sequence[int],
    *,
    tokens: int = 100,
    repeats: int = 3,
    cache_bytes: int = 8 << 30,
    precision: Precision = "float32",
    step: Callable[[str], None] = lambda _: None,
) -> list[Size]:
    """Measure every number of passages in ``counts``; ``step`` is told what comes next."""
    if not counts:
        return []
    block = AttentionEngine(model, cache_bytes=cache_bytes, cache_precision=precision)
    causal = AttentionEngine(
        block.decoder, layout="causal", template=ICR_TEMPLATE, cache_bytes=cache_bytes, cache_precision=precision
    )
    chosen = AttentionSpec(block.default_heads("document"), calibrated=True)
    everything = AttentionSpec(calibrated=True)
    query = Query(QUERIES[0])
    documents = passages(texts, max(counts), tokens, block.count_tokens)
    block.attend(query, documents[:2], chosen)  # first-call costs (thread pools, allocator) belong to none of the sizes
    process = psutil.Process()
    measured = []
    for count in counts:
        some = documents[:count]
        step(f"{count} passages: published")
        published: Timing | None = None
        with contextlib.suppress(LimitError):
            published = timed(partial(causal.attend, query, some, everything), min(repeats, 2), causal.clear_cache)
        causal.clear_cache()
        step(f"{count} passages: cold")
        cold = timed(partial(block.attend, query, some, chosen), min(repeats, 2), block.clear_cache)
        step(f"{count} passages: warm")
        warm = timed(partial(block.attend, query, some, chosen), 2 * repeats + 1)
        held = sum(block.count_tokens([item.text for item in some]))
        measured.append(Size(count, held, published, cold, warm, block.cache_stats().bytes, process.memory_info().rss))
    return measured


def batches(
    model: str | Decoder,
    texts: Sequence[str],
    counts: Sequence[int],
    *,
    documents: int = 20,
    tokens: int = 100,
    repeats: int = 3,
    precision: Precision = "float32",
) -> list[dict[str, float]]:
    """Warm seconds per query when 1, 4, 16 queries run in one pass: over one list, and over lists of their own."""
    if not counts:
        return []
    engine = AttentionEngine(model, cache_bytes=8 << 30, cache_precision=precision)
    spec = AttentionSpec(engine.default_heads("document"), calibrated=True)
    most = max(counts)
    pool = passages(texts, documents * most, tokens, engine.count_tokens)
    queries = [Query(f"{QUERIES[i % len(QUERIES)]} {'again ' * (i // len(QUERIES))}".strip()) for i in range(most)]
    engine.attend_many([AttentionRequest(queries[0], tuple(pool), spec)])
    rows = []
    for count in counts:
        same = [AttentionRequest(query, tuple(pool[:documents]), spec) for query in queries[:count]]
        own = [
            AttentionRequest(query, tuple(pool[i * documents : (i + 1) * documents]), spec)
            for i, query in enumerate(queries[:count])
        ]
        one_list = timed(partial(engine.attend_many, same), 2 * repeats + 1).median / count
        own_lists = timed(partial(engine.attend_many, own), 2 * repeats + 1).median / count
        rows.append({"queries": count, "one_list_s_per_query": one_list, "own_lists_s_per_query": own_lists})
    return rows


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import transformers

    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }
