"""Records of experiments as Markdown: what compression saves, what order does, how good probabilities are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag.errors import InputError, shown
from rag.eval.bench_tables import Columns
from rag.eval.results_tables import Options, Record, lines, p_value, table

_WAYS: Mapping[str, str] = {
    "after_reranker": "after the reranker, documents known",
    "after_reranker_new": "after the reranker, documents new",
    "warm": "alone, documents known",
    "cold": "alone, documents new",
}
_COMPRESSING = (
    "compressing", "input tokens", "kept", "prefill saved s", "compression s", "of the saved", "pays below tokens/s",
)  # fmt: skip
_CALIBRATION: Columns = {
    "held out": ("held_out", "s"),
    "collection": ("collection", "s"),
    "probability": ("probability", "s"),
    "n": ("count", ",d"),
    "true": ("base_rate", ".3f"),
    "AUC before": ("auc_before", ".3f"),
    "after": ("auc", ".3f"),
    "ECE before": ("ece_before", ".3f"),
    "after ": ("ece", ".3f"),
    "Brier before": ("brier_before", ".3f"),
    "after  ": ("brier", ".3f"),
    "always the rate": ("brier_of_base_rate", ".3f"),
}
_ABSTAINING: Columns = {
    "held out": ("held_out", "s"),
    "collection": ("collection", "s"),
    "abstaining below": ("threshold", ".3f"),
    "lists without an answer caught": ("caught", ".1%"),
    "lists with one given up": ("given_up", ".1%"),
}


def breakeven(record: Record, options: Options) -> str:
    """Of `rag eval breakeven`: seconds of each way of compressing by input length, then what each reader gains.

    Options: ``part`` (``lengths`` or ``readers``: only that, without its title).
    """
    lengths = record["lengths"]
    shares = [
        [
            name,
            f"{row['tokens']:,d}",
            f"{row['kept']:,d}",
            f"{row['saved_s']:.2f}",
            f"{row[f'{way}_s']:.3g}",
            _share(row[f"{way}_share"]),
            _rate(row[f"{way}_break_even"]),
        ]
        for way, name in _WAYS.items()
        for row in lengths
    ]
    gains = [
        [
            f"{reader['name']}{' (estimate)' if reader['estimated'] else ''}",
            _rate(reader["tokens_per_second"]),
            *(
                _gain(saved - row["after_reranker_new_s"])
                for saved, row in zip(reader["saved_s"], lengths, strict=True)
            ),
        ]
        for reader in record["readers"]
    ]
    return _parts(
        options,
        lengths=(
            "Seconds of compression against the prefill that it saves the same model",
            lines(_COMPRESSING, shares),
        ),
        readers=(
            "Prefill seconds saved less compression after the reranker, documents new, by reader and input tokens",
            lines(["reader", "tokens/s", *(f"{row['tokens']:,d}" for row in lengths)], gains),
        ),
    )


def order_effects(record: Record, options: Options) -> str:
    """Of `rag order effects`: the answer's document at each place, each ordering against random order, the outcome.

    Options: ``heading`` of the first columns, ``labels`` (ordering to what stands for it).
    """
    heading = options.get("heading") or f"{record['questions']} questions of {record['documents']} documents"
    labels = options.get("labels", {})
    places, orderings = record["places_against_their_mean"], record["orderings_against_shuffle"]
    control = record["shuffle"]
    outcome = (
        f"Random order: {control['mean']:.3f}, ±{control['spread']:.3f} between random orders of one question; "
        f"{record['summary']}."
    )
    return "\n\n".join(
        [
            _effects(f"{heading}: answer's document at place", "all places", places, {}),
            _effects(f"{heading}: ordering", "random order", orderings, labels),
            outcome,
        ]
    )


def calibration(record: Record, options: Options) -> str:
    """Of `rag ltr calibrate`: probabilities before and after on held-out queries, what abstaining does, the diagram.

    Options: ``plot`` (the diagram's file, as the page names it).
    """
    entries: Sequence[Mapping[str, Any]] = record["held_out"]
    rows = [
        {
            **entry[name],
            **{f"{key}_before": value for key, value in entry[f"{name}_before"].items()},
            "held_out": entry["held_out"],
            "collection": entry["collection"],
            "probability": name,
        }
        for entry in entries
        for name in ("answerable", "relevance")
    ]
    parts = [table(_CALIBRATION, rows), table(_ABSTAINING, entries)]
    if "plot" in options:
        parts.append(f"![what was predicted against what held]({options['plot']})")
    return "\n\n".join(parts)


def _effects(heading: str, control: str, effects: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> str:
    rows = []
    for effect in effects:
        low, high = effect["interval"]
        rows.append(
            [
                str(labels.get(effect["name"], effect["name"])),
                f"{effect['mean']:.3f}",
                f"{effect['difference']:+.3f}",
                f"{low:+.3f} to {high:+.3f}",
                p_value(effect["p_holm"]),
                effect["verdict"],
            ]
        )
    return lines([heading, "nats per token", f"against {control}", "95 %", "p", "shown"], rows)


def _parts(options: Options, **parts: tuple[str, str]) -> str:
    only = options.get("part")
    if only is None:
        return "\n\n".join(f"{title}:\n\n{text}" for title, text in parts.values())
    if only not in parts:
        raise InputError(f"part {shown(only)}; accepted: {', '.join(parts)}")
    return parts[only][1]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2g} %" if value < 1 else f"{100 * value:.0f} %"


def _gain(seconds: float) -> str:
    return f"{seconds:+,.0f}" if abs(seconds) >= 100 else f"{seconds:+.3g}"


def _rate(value: float) -> str:
    """Tokens a second to two digits: the measurement has no more."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{value:.2g}"
