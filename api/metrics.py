"""Prometheus metrics of one application, in a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from rag.results import ContextResult

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_REQUESTS = (1, 2, 4, 8, 16, 32, 64)
_TOKENS = (100, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000)


class Metrics:
    """What is counted. Several workers each count for themselves: scrape each, or run one per container."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._requests = Counter(
            "rag_requests", "Requests, by the route's path and the status.", ("route", "status"), registry=registry
        )
        self._latency = Histogram(
            "rag_request_seconds",
            "From a request's arrival to its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._stages = Histogram(
            "rag_stage_seconds",
            "What a stage took, its waiting for the model included.",
            ("stage",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._waited = Histogram(
            "rag_model_wait_seconds", "What a job waited for the model thread.", buckets=_SECONDS, registry=registry
        )
        self._batches = Histogram("rag_batch_requests", "Requests per pass.", buckets=_REQUESTS, registry=registry)
        self._batch_tokens = Histogram(
            "rag_batch_tokens", "Document tokens per pass.", buckets=_TOKENS, registry=registry
        )
        self._padding = Counter(
            "rag_batch_padding_avoided_tokens",
            "Tokens that would be padding (longest x count, less the tokens) if passes were not packed.",
            registry=registry,
        )
        self._documents = Counter(
            "rag_documents",
            "Documents of requests: ranked, read in windows, dropped.",
            ("outcome",),
            registry=registry,
        )
        self._tokens = Counter(
            "rag_tokens",
            "Tokens: of corpora, of contexts, saved, and read for the first time.",
            ("kind",),
            registry=registry,
        )
        self._warnings = Counter("rag_warnings", "Warnings given with answers.", registry=registry)
        self._dropped = Counter(
            "rag_dropped_requests", "Requests that nobody waited for any more.", ("why",), registry=registry
        )

    def observe(self, name: str, documentation: str, value: Callable[[], float]) -> None:
        """Add a gauge that is asked for its value when it is scraped."""
        Gauge(name, documentation, registry=self.registry).set_function(value)

    def watch_cache(self, stats: Callable[[], Mapping[str, int]]) -> None:
        """Tell what ``stats`` (the fields of `rag.attention.store.CacheStats`; empty before loading) says."""
        self.registry.register(_CacheCollector(stats))

    def answered(self, route: str, status: int, seconds: float) -> None:
        """One HTTP answer."""
        self._requests.labels(route, str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def result(self, result: ContextResult) -> None:
        """One answer of the pipeline."""
        for stage in result.trace:
            self._stages.labels(stage.stage).observe(stage.seconds)
        self._documents.labels("kept").inc(len(result.results))
        self._documents.labels("windowed").inc(sum(item.windowed for item in result.results))
        for item in result.dropped:
            self._documents.labels(item.reason).inc()
        usage = result.usage
        for kind, tokens in (
            ("corpus", usage.corpus_tokens),
            ("context", usage.context_tokens),
            ("saved", max(0, usage.saved_tokens)),
            ("encoded", usage.encoded_tokens),
        ):
            self._tokens.labels(kind).inc(tokens)
        self._warnings.inc(len(result.warnings))

    def dropped(self, why: str) -> None:
        """A request that ended before its answer: ``timeout`` or ``client_gone``."""
        self._dropped.labels(why).inc()

    def batch(self, requests: int, tokens: int, padded: int) -> None:
        """See `rag.api.model_thread.Observer`."""
        self._batches.observe(requests)
        self._batch_tokens.observe(tokens)
        self._padding.inc(padded - tokens)

    def waited(self, seconds: float) -> None:
        """See `rag.api.model_thread.Observer`."""
        self._waited.observe(seconds)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)


class _CacheCollector(Collector):
    """The engine counts for itself; what it says is handed on."""

    def __init__(self, stats: Callable[[], Mapping[str, int]]) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        """Called by prometheus_client at each scrape."""
        stats = self._stats()
        lookups = CounterMetricFamily("rag_cache_lookups", "Look-ups of document blocks.", labels=["outcome"])
        for outcome in ("hits", "disk_hits", "misses"):
            lookups.add_metric([outcome], stats.get(outcome, 0))
        yield lookups
        yield CounterMetricFamily("rag_cache_evictions", "Blocks evicted.", value=stats.get("evictions", 0))
        for name, documentation in (
            ("bytes", "Bytes of blocks in memory."),
            ("budget_bytes", "Bytes that blocks may take."),
            ("blocks", "Blocks in memory."),
        ):
            yield GaugeMetricFamily(f"rag_cache_{name}", documentation, value=stats.get(name, 0))
