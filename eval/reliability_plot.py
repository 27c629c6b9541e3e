"""Reliability diagrams: what was predicted against what held."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rag.rerankers.calibration import ReliabilityBin


def plot_reliability(diagrams: Mapping[str, tuple[ReliabilityBin, ...]], path: Path) -> None:
    """Draw one panel per diagram (PNG or SVG, by the name's end); the number at a point is how many it stands for."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(diagrams), 4.2), layout="constrained")
    for axes, (name, bins) in zip(figure.subplots(1, len(diagrams), squeeze=False)[0], diagrams.items(), strict=True):
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        axes.plot([item.predicted for item in bins], [item.observed for item in bins], marker="o")
        for item in bins:
            axes.annotate(str(item.size), (item.predicted, item.observed), textcoords="offset points", xytext=(4, -12))
        axes.set(title=name, xlabel="predicted", ylabel="observed", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    figure.savefig(path)
