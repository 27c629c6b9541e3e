"""Seconds over passages, both axes logarithmic: a straight line's slope is the growth exponent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LINES = {"published_s": "ICR as published", "cold_s": "blocks, cold", "warm_s": "blocks, warm"}


def plot(rows: Sequence[Mapping[str, Any]], exponents: Mapping[str, float], path: Path) -> None:
    """Draw the rows of `rag.eval.bench_engine.sizes` as PNG or SVG, each line named with its growth exponent."""
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(6, 4), layout="constrained")).subplots()
    for name, label in LINES.items():
        points = [(row["passages"], row[name]) for row in rows if row[name] is not None]
        if not points:
            continue
        grows = f" ~ N^{exponents[name]:.2f}" if name in exponents else ""
        axes.loglog(*zip(*points, strict=True), marker="o", label=label + grows)
    axes.set_xlabel("passages in the list")
    axes.set_ylabel("seconds per query")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
