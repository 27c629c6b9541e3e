"""Compare ranking systems on a collection: per-query results kept as they come, measures, significance, latency."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rag.errors import ConfigError, InputError
from rag.eval import journal
from rag.eval.collections import Collection
from rag.eval.latency import Latency, latency
from rag.eval.measures import DEFAULT_MEASURES, Evaluation, measure
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
    """One system on one collection. ``against_baseline`` maps measure to `Comparison`; empty for the baseline."""

    run: Run
    evaluation: Evaluation
    latency: Latency
    against_baseline: Mapping[str, Comparison]


@dataclass(frozen=True, slots=True)
class Results:
    """All systems on one collection, by name, in the order given."""

    collection: str
    baseline: str
    measures: tuple[str, ...]
    systems: Mapping[str, SystemResult]

    def table(self) -> list[dict[str, Any]]:
        """One flat row per system: means, differences and p values against the baseline, latency in seconds."""
        return [self._row(name, result) for name, result in self.systems.items()]

    def _row(self, name: str, result: SystemResult) -> dict[str, Any]:
        row: dict[str, Any] = {"system": name, **result.evaluation.aggregate}
        for measured, comparison in result.against_baseline.items():
            row[f"{measured} diff"] = comparison.difference
            row[f"{measured} p"] = comparison.p_randomisation
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
) -> Results:
    """Run every system on every query of a collection and compare them.

    Args:
        collection: what to measure on.
        systems: name to `System`.
        k: how much of each ranking is kept and measured.
        measures: names as ir-measures has them.
        baseline: the system that the others are compared with; the first one where not given.
        output: a JSONL file that receives each query's ranking as soon as it is there. An evaluation that was
            interrupted carries on from it: at most the query at work is lost. Systems are known by their names.
        progress: show a progress bar on standard error.
        remove_self: leave out documents that carry their query's own id, before the cut at ``k`` (systems then have to
            return one more).
        description: what else decides the rankings (models, settings), as JSON values: ``output`` is carried on only
            where it was made with the same.

    Raises:
        ConfigError: no system, an unknown baseline or measure, ``k`` below 1.
        InputError: no query; a ranking with a repeated document, increasing scores or one that is not a finite number.
        ArtefactError: ``output`` belongs to another collection or other settings, or is damaged.
    """
    chosen = _check(collection, systems, k, baseline)
    header = {"collection": collection.name, "k": k, "remove_self": remove_self, "data": _fingerprint(collection)}
    header |= {"description": dict(description or {})}
    done = journal.load(output, header) if output else {}
    runs: dict[str, Run] = {name: {} for name in systems}
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    with journal.writer(output, header) as write, _bar(progress, len(systems) * len(collection.queries)) as advance:
        for name, system in systems.items():
            for query in collection.queries:
                if (name, query.id) not in done:
                    done[name, query.id] = _run_one(system, query, k, remove_self)
                    write(name, query.id, *done[name, query.id])
                runs[name][query.id], taken = done[name, query.id]
                seconds[name].append(taken)
                advance(name)
    evaluations = {name: measure(collection.qrels, run, measures) for name, run in runs.items()}
    comparisons = _compare(evaluations, chosen)
    return Results(
        collection.name,
        chosen,
        tuple(measures),
        {
            name: SystemResult(runs[name], evaluations[name], latency(seconds[name]), comparisons[name])
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


def _fingerprint(collection: Collection) -> str:
    """A digest of ids and queries, so that a file of results is not carried on with other data of the same name."""
    digest = hashlib.blake2b(digest_size=8)
    for part in (
        *(document.id for document in collection.documents),
        *(text for query in collection.queries for text in (query.id, query.text)),
    ):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


@contextmanager
def _bar(visible: bool, total: int) -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not visible) as bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, advance=1, description=name)
