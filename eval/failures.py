"""Where a system loses most against the baseline, and where it gains most: the queries to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Shown:
    """One document of a ranking: its id, what it is about, and its grade (None: not judged)."""

    id: str
    title: str
    grade: int | None


@dataclass(frozen=True, slots=True)
class Difference:
    """One query on which a system and the baseline differ, with both rankings (their best documents)."""

    query: str
    text: str
    system: str
    baseline: str
    measure: str
    value: float
    baseline_value: float
    ranking: tuple[Shown, ...]
    baseline_ranking: tuple[Shown, ...]

    @property
    def difference(self) -> float:
        """The system's value less the baseline's."""
        return self.value - self.baseline_value


def differences(
    record: Mapping[str, Any], system: str, baseline: str, measure: str, count: int
) -> tuple[list[Difference], list[Difference]]:
    """The ``count`` largest losses and gains of ``system``, the largest first; equal ones in the order of the queries.

    ``record`` is one of `rag.eval.report_record`; where it holds no single queries both lists are empty.
    """
    found = [
        _difference(record, question, system, baseline, measure)
        for question in record.get("questions", ())
        if question["values"][system][measure] != question["values"][baseline][measure]
    ]
    by_size = sorted(found, key=lambda item: item.difference)
    losses = [item for item in by_size if item.difference < 0]
    gains = [item for item in sorted(found, key=lambda item: -item.difference) if item.difference > 0]
    return losses[:count], gains[:count]


def _difference(
    record: Mapping[str, Any], question: Mapping[str, Any], system: str, baseline: str, measure: str
) -> Difference:
    titles = record.get("titles", {})

    def shown(name: str) -> tuple[Shown, ...]:
        return tuple(Shown(document, titles.get(document, ""), grade) for document, grade in question["rankings"][name])

    return Difference(
        query=question["id"],
        text=question["text"],
        system=system,
        baseline=baseline,
        measure=measure,
        value=question["values"][system][measure],
        baseline_value=question["values"][baseline][measure],
        ranking=shown(system),
        baseline_ranking=shown(baseline),
    )
