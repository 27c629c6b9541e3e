"""Compare ranking systems on a collection: per-query results kept as they come, measures, significance, latency."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rag.errors import ConfigError, InputError
from rag.eval import journal
from rag.eval.collections import Collection
from rag.eval.latency import Latency, latency
from rag.eval.measures import DEFAULT_MEASURES, Evaluation, measure
from rag.eval.progress import progress_bar
from rag.eval.runs import Ranking, Run, ranking, sort_ranking, without_self
from rag.eval.significance import Interval, bootstrap_interval, holm, paired_t_test, randomisation_test
from rag.types import Query, ScoredDocument

System: TypeAlias = Callable[[Query], Sequence[ScoredDocument]]
"""Ranks documents for a query; the list's order is the ranking, its scores must not increase."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure of one system against the baseline: mean difference, its 95 % interval, p values (Holm-adjusted).

    Adjustment is over the systems compared, per measure.
    """

    difference: float
    interval: Interval
    p_randomisation: float
    p_t_test: float


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One system on one collection.

    ``intervals`` are the 95 % bootstrap intervals of the means, by measure. ``against_baseline`` maps measure to
    `Comparison`; empty for the baseline.
    """

    run: Run
    evaluation: Evaluation
    latency: Latency
    against_baseline: Mapping[str, Comparison]
    intervals: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Results:
    """All systems on one collection, by name, in the order given."""

    collection: str
    baseline: str
    measures: tuple[str, ...]
    systems: Mapping[str, SystemResult]

    def table(self) -> list[dict[str, Any]]:
        """One flat row per system: means, differences from the baseline, their 95 % intervals (``low``, ``high``), p
        values (``p`` of the randomisation test, ``p t`` of the t test), latency in seconds.
        """
        return [self._row(name, result) for name, result in self.systems.items()]

    def _row(self, name: str, result: SystemResult) -> dict[str, Any]:
        row: dict[str, Any] = {"system": name, **result.evaluation.aggregate}
        for measured, interval in result.intervals.items():
            row |= {f"{measured} low": interval.low, f"{measured} high": interval.high}
        for measured, comparison in result.against_baseline.items():
            low, high = comparison.interval
            row |= {f"{measured} diff": comparison.difference}
            row |= {f"{measured} diff low": low, f"{measured} diff high": high}
            row |= {f"{measured} p": comparison.p_randomisation, f"{measured} p t": comparison.p_t_test}
        return row | {"p50 s": result.latency.p50, "p95 s": result.latency.p95}


def evaluate(
    collection: Collection,
    systems: Mapping[str, System],
    k: int = 20,
    measures: Sequence[str] = DEFAULT_MEASURES,
    *,
    baseline: str | None = None,
    output: Path | None = None,
    progress: bool = True,
    remove_self: bool = False,
    description: Mapping[str, Any] | None = None,
    identities: Mapping[str, Any] | None = None,
) -> Results:
    """Run every system on every query of a collection and compare them.

    Args:
        collection: what to measure on.
        systems: name to `System`.
        k: how much of each ranking is kept and measured.
        measures: names as ir-measures has them.
        baseline: the system that the others are compared with; the first one where not given.
        output: a JSONL file that receives each query's ranking as soon as it is there. An evaluation that was
            interrupted carries on from it: at most the query at work is lost. Systems are known by their names and
            identities.
        progress: show a progress bar on standard error.
        remove_self: leave out documents that carry their query's own id, before the cut at ``k`` (systems then have to
            return one more).
        description: what else decides all rankings, as JSON values: ``output`` is carried on only where it was made
            with the same.
        identities: system to what decides its rankings (stages, options, models), as JSON values: a system's part of
            ``output`` is carried on only where it was made with the same.

    Raises:
        ConfigError: no system, an unknown baseline or measure, ``k`` below 1.
        InputError: no query; a ranking with a repeated document, increasing scores or one that is not a finite number.
        ArtefactError: ``output`` belongs to another collection or other settings, or is damaged.
    """
    chosen = _check(collection, systems, k, baseline)
    header = {"collection": collection.name, "k": k, "remove_self": remove_self, "data": fingerprint(collection)}
    header |= {"description": dict(description or {})}
    keys = {name: _key(name, (identities or {}).get(name)) for name in systems}
    done = journal.load(output, header) if output else {}
    runs: dict[str, Run] = {name: {} for name in systems}
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    total = len(systems) * len(collection.queries)
    with journal.writer(output, header) as write, progress_bar(progress, total) as advance:
        for name, system in systems.items():
            for query in collection.queries:
                place = (keys[name], query.id)
                if place not in done:
                    done[place] = _run_one(system, query, k, remove_self)
                    write(*place, *done[place])
                runs[name][query.id], taken = done[place]
                seconds[name].append(taken)
                advance(name)
    evaluations = {name: measure(collection.qrels, run, measures) for name, run in runs.items()}
    comparisons = _compare(evaluations, chosen)
    return Results(
        collection.name,
        chosen,
        tuple(measures),
        {
            name: SystemResult(
                runs[name],
                evaluations[name],
                latency(seconds[name]),
                comparisons[name],
                {of: bootstrap_interval(list(by.values())) for of, by in evaluations[name].per_query.items()},
            )
            for name in systems
        },
    )


def _check(collection: Collection, systems: Mapping[str, System], k: int, baseline: str | None) -> str:
    if not systems:
        raise ConfigError("no system to evaluate")
    if k < 1:
        raise ConfigError(f"k must be at least 1, given {k}")
    if not collection.queries:
        raise InputError(f"collection {collection.name!r} has no judged query")
    chosen = next(iter(systems)) if baseline is None else baseline
    if chosen not in systems:
        raise ConfigError(f"baseline {chosen!r} is not among the systems: {', '.join(systems)}")
    return chosen


def _run_one(system: System, query: Query, k: int, remove_self: bool) -> tuple[Ranking, float]:
    start = time.perf_counter()
    found = ranking(system(query))
    taken = time.perf_counter() - start
    if sort_ranking(found, query.id) != found:
        raise InputError(f"query {query.id!r}: the system's scores increase along its ranking")
    if remove_self:
        found = without_self({query.id: found})[query.id]
    return found[:k], taken


def _compare(evaluations: Mapping[str, Evaluation], baseline: str) -> dict[str, dict[str, Comparison]]:
    comparisons: dict[str, dict[str, Comparison]] = {name: {} for name in evaluations}
    others = [name for name in evaluations if name != baseline]
    for measured, reference in evaluations[baseline].per_query.items():
        base = list(reference.values())
        values = {name: [evaluations[name].per_query[measured][query] for query in reference] for name in others}
        p_randomisation = holm({name: randomisation_test(values[name], base) for name in others})
        p_t_test = holm({name: paired_t_test(values[name], base) for name in others})
        for name in others:
            differences = [value - before for value, before in zip(values[name], base, strict=True)]
            comparisons[name][measured] = Comparison(
                sum(differences) / len(differences),
                bootstrap_interval(differences),
                p_randomisation[name],
                p_t_test[name],
            )
    return comparisons


def fingerprint(collection: Collection) -> str:
    """A digest of documents and queries, so that results are not carried on with other data of the same name."""
    digest = hashlib.blake2b(digest_size=8)
    for part in (
        *(text for document in collection.documents for text in (document.id, document.title, document.text)),
        *(text for query in collection.queries for text in (query.id, query.text)),
    ):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def _key(name: str, identity: Any) -> str:
    """The system's name in the file of results."""
    return name if identity is None else f"{name} {digest_of(identity)}"


def digest_of(value: Any) -> str:
    """A digest of a JSON value."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
