"""The calibrators of one reranker as a JSON file, and what they say of a list."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import pydantic
from pydantic_core import to_jsonable_python

from rag import registry
from rag.artefacts import Artefact, EngineIdentity, TrainedOn
from rag.errors import ArtefactError, InputError, shown
from rag.rerankers.calibration import IsotonicCurve, ListFeatures, LogisticModel, ReliabilityBin, list_features


class Judgement(NamedTuple):
    """``answerable``: the probability that something in the list answers; ``relevance``: of each document, as given."""

    answerable: float
    relevance: tuple[float, ...]
    abstain: bool


class RelevanceModel(Artefact, frozen=True):
    """Probabilities for the scores of one reranker over one kind of candidates.

    ``reranker`` is its `identity`, ``engine`` what it read attention with. ``signals`` are entries of the documents'
    traces that mean the same in every list (a cosine): the best of each is a feature of the list beside those of its
    scores. ``answerable`` says whether the list holds an answer, ``relevant`` which documents are relevant if so.
    ``abstain_below`` is the threshold of ``answerable``. ``figures`` and ``reliability`` are of held-out queries.
    """

    refusal: ClassVar[str] = "does not hold calibrated relevance"

    format: Literal["rag.relevance/1"] = "rag.relevance/1"
    reranker: dict[str, Any]
    engine: EngineIdentity
    retriever: str
    k: int
    signals: tuple[str, ...]
    answerable: LogisticModel
    relevant: IsotonicCurve
    abstain_below: pydantic.FiniteFloat
    data: tuple[TrainedOn, ...]
    figures: dict[str, float]
    reliability: dict[str, tuple[ReliabilityBin, ...]]
    versions: dict[str, str]

    @pydantic.model_validator(mode="after")
    def _features(self) -> RelevanceModel:
        expected = feature_names(self.signals)
        if self.answerable.features != expected:
            found = ", ".join(self.answerable.features)
            raise ValueError(f"expected list features {', '.join(expected)}; found {found}")
        return self

    def check_reranker(self, found: Mapping[str, Any]) -> None:
        """Raise `ArtefactError` where the calibrators were made for another reranker, saying expected and found."""
        if dict(found) != self.reranker:
            raise ArtefactError(f"calibrated relevance: expected reranker {self.reranker}, found {dict(found)}")

    def judge(self, scores: Sequence[float], traces: Sequence[Mapping[str, Any]]) -> Judgement:
        """The probabilities of one list, in the order given: at least one document.

        Raises:
            InputError: no document has a signal that the calibrators use; names it.
        """
        answerable = self.answerable(list_row(scores, traces, self.signals))
        relevance = tuple((answerable * self.relevant(scores)).tolist())
        return Judgement(answerable, relevance, answerable < self.abstain_below)


def feature_names(signals: Sequence[str]) -> tuple[str, ...]:
    """The features of a list, by name."""
    return (*ListFeatures._fields, *(f"best_{name}" for name in signals))


def list_row(scores: Sequence[float], traces: Sequence[Mapping[str, Any]], signals: Sequence[str]) -> dict[str, float]:
    """The features of a list: those of its scores, and the best of each signal among its documents.

    Raises:
        InputError: no document has a finite value of a signal; names it and what there is.
    """
    best = []
    for name in signals:
        values = [trace[name] for trace in traces if isinstance(trace.get(name), int | float)]
        there = [value for value in values if math.isfinite(value)]
        if not there:
            known = sorted({key for trace in traces for key in trace})
            raise InputError(f"no candidate has the signal {shown(name)} in its trace, which has {', '.join(known)}")
        best.append(float(max(there)))
    return dict(zip(feature_names(signals), (*list_features(scores), *best), strict=True))


def identity(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A reranker and its options as plain values; a file stands for its content, wherever it lies.

    Raises:
        ConfigError: an unknown reranker or option.
        ArtefactError: a file that cannot be read.
    """
    checked = registry.check_options("reranker", name, options, ("engine", "embedder"))
    return {"name": name, "options": {key: _plain(value) for key, value in sorted(checked.items())}}


def _plain(value: Any) -> Any:
    if not isinstance(value, Path):
        return to_jsonable_python(value)
    try:
        return f"sha256:{hashlib.sha256(value.read_bytes()).hexdigest()}"
    except OSError as error:
        raise ArtefactError(f"{value} cannot be read: {error.strerror}") from None
