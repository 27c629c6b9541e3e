"""Measuring how a model's attention depends on the slot: many prompts, interruptible."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rag.compressors.ordering.document_attention import Floats
from rag.compressors.ordering.profiling import read_slots
from rag.errors import InputError
from rag.eval.record_log import record_log
from rag.eval.slot_prompts import PromptSource

if TYPE_CHECKING:
    from rag.attention.engine import AttentionEngine
    from rag.compressors.ordering.slot_profile import SlotProfile


def read_prompts(
    engine: AttentionEngine,
    source: PromptSource,
    counts: Sequence[int],
    prompts: int,
    *,
    seed: int = 0,
    journal: Path | None = None,
    progress: bool = True,
) -> dict[int, Floats]:
    """Attention to each slot, by number of documents D: (prompts, layers, D).

    Args:
        engine: in the causal layout.
        source: where queries and documents come from.
        counts: numbers of documents per prompt.
        prompts: how many prompts of each number.
        seed: other prompts for another one.
        journal: JSONL file that receives every reading and from which an interrupted measurement goes on.
        progress: show a bar.

    Raises:
        InputError: no count, or one below 2; fewer documents than a prompt needs.
        ConfigError: the block layout.
        ArtefactError: the journal belongs to another measurement, or is damaged.
    """
    if not counts or min(counts) < 2:
        raise InputError(f"numbers of documents {list(counts)}; accepted: one or more, each of 2 or more")
    from rich.console import Console
    from rich.progress import track

    info = engine.info()
    header = {
        "fingerprint": info["fingerprint"],
        "template": info["template"],
        "prompts": _digest(source),
        "seed": seed,
    }
    wanted = [(count, number) for count in counts for number in range(prompts)]
    with record_log(journal, header) as (done, write):
        read = {(record["documents"], record["prompt"]): record["attention"] for record in done}
        missing = [key for key in wanted if key not in read]
        for count, number in track(missing, "prompts", console=Console(stderr=True), disable=not progress):
            drawn = source.draw(count, number, seed)
            attention = read_slots(engine, drawn.query, drawn.documents).tolist()
            read[count, number] = attention
            write({"documents": count, "prompt": number, "attention": attention})
    return {count: np.array([read[count, number] for number in range(prompts)]) for count in counts}


def draw_basin(profile: SlotProfile, path: Path) -> None:
    """Plot the curves of a profile with bands of two standard errors (PNG, SVG or PDF by the name's end)."""
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(6, 4), layout="constrained")).subplots()
    for count, curve in sorted(profile.curves.items()):
        places, mean, error = np.linspace(0, 1, count), np.array(curve.attention), np.array(curve.error)
        axes.plot(places, mean, marker="o", label=f"{count} documents")
        axes.fill_between(places, mean - 2 * error, mean + 2 * error, alpha=0.2)
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set_xticks([0, 1], ["first slot", "last slot"])
    axes.set_ylabel("attention, mean slot = 1")
    axes.set_title(f"Attention basin of {profile.model}")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def _digest(source: PromptSource) -> str:
    """Of the queries and documents that prompts are drawn from."""
    content = [
        [item.query.full_text, [[document.title, document.text] for document in item.documents]]
        for item in source.asked
    ]
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()
