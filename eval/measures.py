"""Effectiveness measures, through ir-measures, which asks trec_eval's own code for most of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag.errors import ConfigError, InputError
from rag.eval.runs import break_ties, sort_ranking

DEFAULT_MEASURES = ("nDCG@10", "RR@10", "AP", "R@20", "R@100", "Judged@10")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Values of one run: measure name to mean over all judged queries, and to value per query id."""

    aggregate: Mapping[str, float]
    per_query: Mapping[str, Mapping[str, float]]


def measure(
    qrels: Mapping[str, Mapping[str, int]],
    run: Mapping[str, Sequence[tuple[str, float]]],
    names: Sequence[str] = DEFAULT_MEASURES,
) -> Evaluation:
    """Measure a run against judgements.

    The mean is over all judged queries: one that the run lacks counts 0 (trec_eval's ``-c``). Queries that have no
    judgements are left out. Equal scores keep the run's order (see `rag.eval.runs`). Names are those of ir-measures,
    e.g. ``nDCG@10``, ``RR@10``, ``AP(rel=2)``, ``RBP(p=0.8)``.

    Raises:
        ConfigError: an unknown measure name.
        InputError: no judgements; a score that is not finite; a document ranked twice.
    """
    import ir_measures

    if not qrels:
        raise InputError("no judgements (qrels) to measure against")
    parsed = {}
    for name in names:
        try:
            parsed[ir_measures.parse_measure(name)] = name
        except (ValueError, NameError) as error:
            known = ", ".join(sorted(ir_measures.measures.registry))
            raise ConfigError(f"unknown measure {name!r} ({error}); known: {known}") from None
    judged = {query: dict(grades) for query, grades in qrels.items()}
    scored = {
        query: dict(break_ties(sort_ranking(pairs, query))) for query, pairs in run.items() if query in judged and pairs
    }
    values: dict[str, dict[str, float]] = {name: dict.fromkeys(judged, 0.0) for name in names}
    for metric in ir_measures.iter_calc(list(parsed), judged, scored) if scored else ():
        values[parsed[metric.measure]][metric.query_id] = float(metric.value)
    aggregate = {name: math.fsum(by_query.values()) / len(judged) for name, by_query in values.items()}
    return Evaluation(aggregate, values)
