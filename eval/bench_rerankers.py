"""Rerankers over the same lists: seconds per query, with nothing read before and with everything read before."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.errors import InputError
from rag.eval.record_log import record_log
from rag.eval.retrieval import System
from rag.eval.systems import Found, Reranked
from rag.types import Query

_FIRST_CALL = 2


@dataclass(frozen=True, slots=True)
class Seconds:
    """Wall time of one system, query by query.

    ``cold``: the candidates have never been read. ``warm``: another query has just read them; all that a retriever has,
    which reads no candidates.
    """

    system: str
    cold: tuple[float, ...]
    warm: tuple[float, ...]

    def row(self, baseline: Seconds | None = None) -> dict[str, Any]:
        """Flat figures: median, least and most per query, and the ratio of the medians to those of ``baseline``."""
        figures: dict[str, Any] = {"system": self.system, "queries": len(self.warm)}
        for name in ("cold", "warm"):
            seconds: tuple[float, ...] = getattr(self, name)
            median = statistics.median(seconds) if seconds else None
            ratio = median / statistics.median(getattr(baseline, name)) if median and self.cold and baseline else None
            figures |= {
                f"{name}_s": median,
                f"{name}_least_s": min(seconds, default=None),
                f"{name}_most_s": max(seconds, default=None),
                f"{name}_ratio": ratio,
            }
        return figures


def measure(
    systems: Mapping[str, System],
    queries: Sequence[Query],
    *,
    identities: Mapping[str, Any],
    journal: Path | None = None,
    header: Mapping[str, Any] | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> list[Seconds]:
    """Time every reranker on every query, one at a time, and report what the retrievers took for their lists.

    For each query what is known is forgotten, then the next query is asked of this query's candidates (cold), then
    the query itself (warm), so that no answer can be had from an earlier one.

    Args:
        systems: by label, as `rag.eval.lineup.Lineup` makes them.
        queries: at least 2.
        identities: what decides each system.
        journal: JSONL file that receives every query, and from which an interrupted run goes on.
        header: what else the seconds depend on, for the journal.
        step: told which system, after each query of each reranker.

    Raises:
        InputError: fewer than 2 queries.
        ArtefactError: the journal belongs to another benchmark, or is damaged.
    """
    if len(queries) < 2:
        raise InputError(f"cold and warm need at least 2 queries, given {len(queries)}")
    measured = []
    with record_log(journal, header or {}) as (done, write):
        known = {(of["system"], of["query"]): of for of in done if of["identity"] == identities.get(of["system"])}
        for label, system in systems.items():
            if isinstance(system, Found):
                measured.append(Seconds(label, (), system.seconds))
            if not isinstance(system, Reranked):
                continue
            if any((label, query.id) not in known for query in queries):
                # Models and thread pools are loaded before anything counts.
                system.reranker.rerank(queries[0], system.found(queries[0])[:_FIRST_CALL])
            for query, other in zip(queries, (*queries[1:], queries[0]), strict=True):
                if (label, query.id) not in known:
                    record = {"system": label, "query": query.id, "identity": identities.get(label)}
                    known[label, query.id] = record | _cold_and_warm(system, query, other)
                    write(known[label, query.id])
                step(label)
            records = [known[label, query.id] for query in queries]
            measured.append(Seconds(label, *(tuple(of[name] for of in records) for name in ("cold", "warm"))))
    return measured


def _cold_and_warm(system: Reranked, query: Query, other: Query) -> dict[str, float]:
    candidates = system.found(query)
    system.begin()
    start = time.perf_counter()
    system.reranker.rerank(other, candidates)
    between = time.perf_counter()
    system.reranker.rerank(query, candidates)
    return {"cold": between - start, "warm": time.perf_counter() - between}
