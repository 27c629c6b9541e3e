"""Two records of retrieval evaluations: what changed in the figures, and what else is not the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag.errors import InputError
from rag.eval.report_record import measures_of, systems_of
from rag.eval.significance import Interval, bootstrap_interval, holm, paired_t_test, randomisation_test

_CONDITIONS = ("collection", "qrels", "data", "queries", "documents", "k", "remove_self", "candidates", "synthetic")
"""Top-level values that decide what a figure means."""


@dataclass(frozen=True, slots=True)
class Change:
    """One measure of one system, then and now.

    ``queries`` is the number of queries that both records hold; over them the difference, its 95 % interval and the p
    values (Holm over the systems, per measure) are taken. Without single queries in both records they are those of the
    means, and there is no interval and no p value.
    """

    system: str
    measure: str
    before: float
    after: float
    difference: float
    queries: int
    interval: Interval | None = None
    p_randomisation: float | None = None
    p_t_test: float | None = None


@dataclass(frozen=True, slots=True)
class RecordComparison:
    """``conditions``: what is not the same, as name, value before, value after. ``changes``: system by measure."""

    conditions: tuple[tuple[str, str, str], ...]
    changes: tuple[Change, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


def compare_records(before: Mapping[str, Any], after: Mapping[str, Any]) -> RecordComparison:
    """Compare the systems of the same label over the measures and queries that both records have.

    Raises:
        InputError: no system or no measure in common.
    """
    names = [name for name in systems_of(before) if name in systems_of(after)]
    measures = [name for name in measures_of(before) if name in measures_of(after)]
    if not names or not measures:
        what = "system" if not names else "measure"
        had, has = (
            ", ".join(systems_of(record) if not names else measures_of(record)) or "none" for record in (before, after)
        )
        raise InputError(f"the records have no {what} in common: {had}, and {has}")
    changes = [change for measure in measures for change in _changes(before, after, names, measure)]
    return RecordComparison(
        conditions=tuple(_conditions(before, after, names)),
        changes=tuple(sorted(changes, key=lambda change: names.index(change.system))),
        only_before=tuple(name for name in systems_of(before) if name not in names),
        only_after=tuple(name for name in systems_of(after) if name not in names),
    )


def _conditions(
    before: Mapping[str, Any], after: Mapping[str, Any], names: Sequence[str]
) -> list[tuple[str, str, str]]:
    pairs: list[tuple[str, Any, Any]] = [(name, before.get(name), after.get(name)) for name in _CONDITIONS]
    packages = dict.fromkeys((*before.get("versions", {}), *after.get("versions", {})))
    pairs += [
        (f"version of {name}", *(record.get("versions", {}).get(name) for record in (before, after)))
        for name in packages
    ]
    pairs.append(("models", _models(before), _models(after)))
    for name in names:
        there, here = (_flat(record.get("identities", {}).get(name, {})) for record in (before, after))
        if there and here:
            pairs += [(f"{name}: {key}", there.get(key), here.get(key)) for key in dict.fromkeys((*there, *here))]
    return [(name, _text(old), _text(new)) for name, old, new in pairs if old != new]


def _models(record: Mapping[str, Any]) -> str | None:
    # Records made before there could be several engines have one, under another name.
    engines = record.get("engines") or [of for of in (record.get("engine"),) if of]
    return ", ".join(f"{of.get('model')} ({of.get('fingerprint')})" for of in engines) or None


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Nested mappings as dotted names."""
    if not isinstance(value, Mapping):
        return {path: value}
    return {
        key: of for name, item in value.items() for key, of in _flat(item, f"{path}.{name}" if path else name).items()
    }


def _text(value: Any) -> str:
    return "not recorded" if value is None else str(value)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], names: Sequence[str], measure: str) -> list[Change]:
    old, new = ({row["system"]: row for row in record["systems"]} for record in (before, after))
    paired = {name: _paired(before, after, name, measure) for name in names}
    tested = {name: of for name, of in paired.items() if of[0]}
    p_randomisation = holm({name: randomisation_test(now, then) for name, (then, now) in tested.items()})
    p_t_test = holm({name: paired_t_test(now, then) for name, (then, now) in tested.items()})
    changes = []
    for name in names:
        means = (old[name][measure], new[name][measure])
        if name not in tested:
            changes.append(Change(name, measure, *means, means[1] - means[0], 0))
            continue
        then, now = tested[name]
        differences = [b - a for a, b in zip(then, now, strict=True)]
        changes.append(
            Change(
                name,
                measure,
                *means,
                math.fsum(differences) / len(differences),
                len(differences),
                bootstrap_interval(differences),
                p_randomisation[name],
                p_t_test[name],
            )
        )
    return changes


def _paired(
    before: Mapping[str, Any], after: Mapping[str, Any], system: str, measure: str
) -> tuple[list[float], list[float]]:
    """Values of the queries that both records have, with the same id and text, in the same order."""
    then, now = (
        {(of["id"], of["text"]): of["values"][system][measure] for of in record.get("questions", ())}
        for record in (before, after)
    )
    shared = [query for query in then if query in now]
    return [then[query] for query in shared], [now[query] for query in shared]
