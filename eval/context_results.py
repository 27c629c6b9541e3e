"""From what was kept of each question to one row per collection, system and budget: means, intervals, comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.errors import ConfigError, InputError
from rag.eval.context import Kept
from rag.eval.latency import Latency, latency
from rag.eval.retrieval import Comparison
from rag.eval.significance import Interval, bootstrap_interval, holm, paired_t_test, randomisation_test

COMPARED = (
    "recall",
    "recall_weighted",
    "precision",
    "precision_weighted",
    "retention",
    "auc",
    "exact_match",
    "f1",
    "answered",
)
"""The measures that are tested against the baseline."""


@dataclass(frozen=True, slots=True)
class Row:
    """One system under one budget on one collection.

    ``means`` and their 95 % ``intervals`` (bootstrap over questions) are over the ``counts`` questions for which a
    measure has a value; a measure that has none for any is left out. ``impossible`` counts the questions where nothing
    could be kept within the budget. ``against`` maps a measure to the comparison with the baseline under the same
    budget, over the questions for which both have a value; p values are adjusted over the systems (Holm), per budget
    and measure.
    """

    collection: str
    system: str
    budget: float
    questions: int
    impossible: int
    means: Mapping[str, float]
    intervals: Mapping[str, Interval]
    counts: Mapping[str, int]
    latency: Latency
    against: Mapping[str, Comparison]


@dataclass(frozen=True, slots=True)
class ContextResults:
    """All rows, in the order of collections, budgets and systems as they came."""

    baseline: str
    rows: tuple[Row, ...]

    def curve(self, collection: str, system: str, measure: str) -> list[tuple[float, float]]:
        """Points (achieved ratio, mean of ``measure``) of one system, by budget."""
        rows = [row for row in self.rows if (row.collection, row.system) == (collection, system)]
        return [
            (row.means["ratio"], row.means[measure])
            for row in sorted(rows, key=lambda row: row.budget)
            if measure in row.means
        ]


def summarise(kept: Sequence[Kept], baseline: str) -> ContextResults:
    """One `Row` per collection, system and budget.

    Raises:
        InputError: nothing to summarise.
        ConfigError: ``baseline`` is not among the systems.
    """
    if not kept:
        raise InputError("no result to summarise")
    names = list(dict.fromkeys(item.system for item in kept))
    if baseline not in names:
        raise ConfigError(f"baseline {baseline!r} is not among the systems: {', '.join(names)}")
    groups: dict[tuple[str, float], dict[str, list[Kept]]] = {}
    for item in kept:
        groups.setdefault((item.collection, item.budget), {}).setdefault(item.system, []).append(item)
    rows = []
    for (collection, budget), systems in groups.items():
        against = _comparisons(systems, baseline)
        rows += [_row(collection, name, budget, items, against[name]) for name, items in systems.items()]
    return ContextResults(baseline, tuple(rows))


def compare(values: Mapping[str, Mapping[str, float]], baseline: str) -> dict[str, Comparison]:
    """Compare systems with a baseline on one measure; ``values[system][question]``.

    Only questions for which both have a value count. Systems without such a question are left out.
    """
    base = values[baseline]
    pairs = {
        name: [(value, base[question]) for question, value in of.items() if question in base]
        for name, of in values.items()
        if name != baseline
    }
    paired = {name: ([one for one, _ in of], [other for _, other in of]) for name, of in pairs.items() if of}
    p_randomisation = holm({name: randomisation_test(*of) for name, of in paired.items()})
    p_t_test = holm({name: paired_t_test(*of) for name, of in paired.items()})
    result = {}
    for name, (ours, theirs) in paired.items():
        differences = [a - b for a, b in zip(ours, theirs, strict=True)]
        result[name] = Comparison(
            math.fsum(differences) / len(differences),
            bootstrap_interval(differences),
            p_randomisation[name],
            p_t_test[name],
        )
    return result


def plot(results: ContextResults, measures: Sequence[str], path: Path) -> None:
    """Draw the curves of some measures over the achieved ratio, a row of axes per collection (PNG or SVG)."""
    from matplotlib.figure import Figure

    collections = list(dict.fromkeys(row.collection for row in results.rows))
    systems = list(dict.fromkeys(row.system for row in results.rows))
    figure = Figure(figsize=(4.5 * len(measures), 3.5 * len(collections)), layout="constrained")
    grid = figure.subplots(len(collections), len(measures), squeeze=False)
    for line, collection in zip(grid, collections, strict=True):
        for axes, measure in zip(line, measures, strict=True):
            for system in systems:
                if points := results.curve(collection, system, measure):
                    axes.plot(*zip(*points, strict=True), marker="o", label=system)
            axes.set(title=collection, xlabel="share of tokens kept", ylabel=measure)
            axes.grid(visible=True, alpha=0.3)
    grid[0][0].legend(fontsize="small")
    figure.savefig(path, dpi=120)


def plain(results: ContextResults) -> list[dict[str, Any]]:
    """The rows as JSON values."""
    from dataclasses import asdict

    return [asdict(row) for row in results.rows]


def _comparisons(systems: Mapping[str, Sequence[Kept]], baseline: str) -> dict[str, dict[str, Comparison]]:
    against: dict[str, dict[str, Comparison]] = {name: {} for name in systems}
    for measure in COMPARED if baseline in systems else ():
        values = {name: _values(items, measure) for name, items in systems.items()}
        for name, comparison in compare(values, baseline).items():
            against[name][measure] = comparison
    return against


def _row(collection: str, system: str, budget: float, items: Sequence[Kept], against: Mapping[str, Comparison]) -> Row:
    measures = dict.fromkeys(name for item in items for name in item.values)
    values = {name: list(of.values()) for name in measures if (of := _values(items, name))}
    return Row(
        collection=collection,
        system=system,
        budget=budget,
        questions=len(items),
        impossible=sum(item.impossible for item in items),
        means={name: math.fsum(of) / len(of) for name, of in values.items()},
        intervals={name: bootstrap_interval(of) for name, of in values.items()},
        counts={name: len(of) for name, of in values.items()},
        latency=latency(values["seconds"]),
        against=against,
    )


def _values(items: Iterable[Kept], measure: str) -> dict[str, float]:
    """Question to value, where there is one."""
    return {item.question: value for item in items if (value := item.values.get(measure)) is not None}
