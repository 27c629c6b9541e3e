"""A probe: weights, learned from labelled queries, of statistics of single heads and of other signals; kept as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from rag.artefacts import Artefact, EngineIdentity, TrainedOn, shipped_for
from rag.attention.heads import Task
from rag.attention.types import Engine, Head
from rag.errors import ArtefactError
from rag.standard_scores import Floats, standard_scores


class HeadWeight(NamedTuple):
    """The weight of one statistic of one head; the statistics are those of the stage that uses the probe."""

    statistic: str
    head: Head
    weight: float


class Probe(Artefact, frozen=True):
    """A linear score of documents or sentences.

    Every statistic and what the retrievers said is z-scored within the list; the score is the weighted sum plus
    ``bias``. ``signals`` are what stands beside attention, by name (what the retrievers said; what leads on from the
    best passages). ``method`` and ``data`` say how and from which queries the weights were learned.
    """

    refusal: ClassVar[str] = "is not a probe"

    format: Literal["rag.probe/1"] = "rag.probe/1"
    task: Task
    engine: EngineIdentity
    heads: tuple[HeadWeight, ...]
    signals: dict[str, float]
    bias: float = 0.0
    method: str
    data: tuple[TrainedOn, ...]

    @classmethod
    def choose(
        cls,
        engine: Engine,
        task: Task,
        given: Path | None,
        statistics: frozenset[str],
        signals: frozenset[str] | None = None,
    ) -> Probe:
        """The probe of a file, or the one that ships for the loaded model; ``signals`` None accepts any.

        Raises:
            ArtefactError: a file that is no probe, or one for another model, wording, layout or task, or with other
                statistics or signals.
            ConfigError: no file is given and none ships for this model.
        """
        if given is None:
            return shipped_for(
                engine,
                f"{task} probe",
                ((item.engine, item) for item in shipped() if item.task == task),
                "Train one with `rag probe train`, and name its file (option probe)",
            )
        probe = cls.load(given)
        if probe.task != task:
            raise ArtefactError(f"probe {given}: expected task {task}, found {probe.task}")
        probe.engine.check(engine, f"probe {given}")
        weighed = (
            ("statistics", {item.statistic for item in probe.heads}, statistics),
            ("signals", set(probe.signals), signals),
        )
        for what, found, accepted in weighed:
            if accepted is not None and (unknown := sorted(found - accepted)):
                raise ArtefactError(
                    f"probe {given}: expected {what} among {', '.join(sorted(accepted))}; found {', '.join(unknown)}"
                )
        return probe

    def read_heads(self) -> tuple[Head, ...]:
        """The heads that are read, ascending."""
        return tuple(sorted({item.head for item in self.heads}))


def attention_part(weights: Sequence[HeadWeight], count: int, read: Callable[[str, Sequence[Head]], Floats]) -> Floats:
    """What the heads alone say of ``count`` items: the weighted sum of their z-scored statistics, (count,).

    ``read`` gives a statistic, by name, of some heads: (H, count), greater is better.
    """
    total = np.zeros(count)
    for name in dict.fromkeys(item.statistic for item in weights):
        mine = [item for item in weights if item.statistic == name]
        total += np.array([item.weight for item in mine]) @ standard_scores(read(name, [item.head for item in mine]))
    return total


@cache
def shipped() -> tuple[Probe, ...]:
    """The probes that come with the package."""
    return Probe.shipped_in("probes")
