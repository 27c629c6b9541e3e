"""The compressors that `rag eval context` compares: named on the command line or in a file, built, told apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml
from pydantic import ValidationError

from rag import registry
from rag.budget import Budget
from rag.config import Settings, StageSettings
from rag.errors import ConfigError, InputError, shown
from rag.eval.folds import fold_of
from rag.eval.stage_identity import stage_identity
from rag.stages import Compressor, Reranker, Retriever
from rag.types import CompressedDocument, Document, Query, ScoredDocument

if TYPE_CHECKING:
    from rag.attention.types import Attender, AttentionSpec
    from rag.compressors.llmlingua import LlmLingua, Method

FOLD = "{fold}"
REWRITERS: Mapping[str, Method] = {"llmlingua": "llmlingua", "longllmlingua": "longllmlingua"}
"""Baselines that are no compressors of the registry, by the names that a command line has for them."""
_FORMS = "accepted: NAME, NAME:option=value,option=value, LABEL=NAME:..., LABEL=FILE.yaml with name and options"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The texts that a system gives a reader, and the sentences that they are made of; no documents: it wrote anew."""

    texts: tuple[str, ...] = ()
    documents: tuple[CompressedDocument, ...] | None = None


@dataclass(frozen=True)
class ContextSystem:
    """A compressor under the label that tables show; ``identity`` says what decides its choice, as JSON values."""

    label: str
    compressor: Compressor
    identity: Mapping[str, Any]

    @property
    def spec(self) -> AttentionSpec | None:
        """What it reads of the attention; None for one that reads none."""
        return getattr(self.compressor, "spec", None)

    def at(self, question: str) -> ContextSystem:
        """Itself, for every question."""
        del question
        return self

    def keep(self, query: Query, given: Sequence[ScoredDocument], budget: Budget, attender: Attender) -> Outcome:
        """What is kept of each document.

        Raises:
            BudgetError: nothing can be kept within the budget.
        """
        kept = self.compressor.compress(query, given, budget, attender=attender)
        return Outcome(tuple(item.text for item in kept), tuple(kept))


@dataclass(frozen=True)
class RewritingSystem:
    """A baseline that writes a text of its own, which has no spans in the documents (`rag.compressors.llmlingua`)."""

    label: str
    rewriter: LlmLingua
    identity: Mapping[str, Any]
    spec: AttentionSpec | None = None

    def at(self, question: str) -> RewritingSystem:
        """Itself, for every question."""
        del question
        return self

    def keep(self, query: Query, given: Sequence[ScoredDocument], budget: Budget, attender: Attender) -> Outcome:
        """One text for all documents; it may be longer than the budget allows."""
        del attender
        return Outcome((self.rewriter.compress(query, [item.document for item in given], budget).text,))


OneSystem: TypeAlias = ContextSystem | RewritingSystem


@dataclass(frozen=True)
class FoldedSystem:
    """One label, and a compressor per fold: each question is judged by the one that has not learned from its fold."""

    label: str
    folds: tuple[OneSystem, ...]

    @property
    def identity(self) -> Mapping[str, Any]:
        """What decides the choice in each fold."""
        return {"folds": [system.identity for system in self.folds]}

    def at(self, question: str) -> OneSystem:
        """The system of the fold that the question of this id is in."""
        return self.folds[fold_of(question, len(self.folds))]


System: TypeAlias = OneSystem | FoldedSystem


@dataclass(frozen=True)
class Ranker:
    """Retrieve and rerank the documents of one question, keep the best ``top_n``: what a pipeline compresses."""

    retriever: Retriever
    reranker: Reranker | None
    top_n: int

    @property
    def spec(self) -> AttentionSpec | None:
        """What the reranker reads of the attention."""
        return getattr(self.reranker, "spec", None)

    def rank(self, query: Query, documents: Sequence[Document], attender: Attender) -> list[ScoredDocument]:
        """The best documents of those that have text, best first."""
        full = [document for document in documents if not document.is_empty]
        (found,) = self.retriever.index(full).retrieve([query], len(full))
        if self.reranker is not None:
            found = self.reranker.rerank(query, found, attender=attender)
        return found[: self.top_n]


def settings_ranker(
    settings: Settings, resources: Mapping[str, Callable[[], Any]], top_n: int
) -> tuple[Ranker, dict[str, Any]]:
    """The retriever and reranker of the settings, which keep ``top_n`` documents, and what they are as JSON values."""
    retriever, reranker = settings.retriever, settings.reranker
    ranker = Ranker(
        registry.build("retriever", retriever.name, retriever.options, resources),
        registry.build("reranker", reranker.name, reranker.options, resources) if reranker else None,
        top_n,
    )
    return ranker, {
        "retriever": stage_identity("retriever", retriever, resources),
        "reranker": reranker and stage_identity("reranker", reranker, resources),
    }


def parse_system(text: str) -> tuple[str, StageSettings]:
    """Read one system: its label and its stage.

    ``NAME``, ``NAME:option=value,option=value`` (values are YAML; the label is the whole text),
    ``LABEL=NAME:option=value`` or ``LABEL=FILE.yaml``, a file that holds ``name`` and ``options``.

    Raises:
        InputError: none of these forms, or a file that is not of this form.
    """
    head, equals, rest = text.partition("=")
    label, stage = (head, rest) if equals and ":" not in head else (text, text)
    if not label or not stage:
        raise InputError(f"system {shown(text)}; {_FORMS}")
    if stage.endswith((".yaml", ".yml")):
        return label, _stage(_read_yaml(Path(stage)), stage)
    name, colon, options = stage.partition(":")
    pairs = [part.partition("=") for part in options.split(",")] if colon else []
    if not all(key.strip() and value.strip() for key, _, value in pairs):
        raise InputError(f"system {shown(text)}; {_FORMS}")
    try:
        values = {key.strip(): yaml.safe_load(value) for key, _, value in pairs}
    except yaml.YAMLError:
        raise InputError(f"system {shown(text)}: an option's value is not YAML; {_FORMS}") from None
    return label, _stage({"name": name.strip(), "options": values}, text)


def build_systems(
    given: Sequence[str], resources: Mapping[str, Callable[[], Any]], folds: int | None = None
) -> tuple[System, ...]:
    """Build every system named on a command line.

    One whose text holds ``{fold}`` is built once per fold, with the fold's number, from 0, in its place: that of the
    questions that its artefact must not have learned from (see `rag.eval.folds`).

    Raises:
        InputError: a form that is not accepted.
        ConfigError: no system, two of one label, an unknown compressor, or an option that it refuses.
    """
    systems: dict[str, System] = {}
    for text in given:
        system = _build(text, resources) if FOLD not in text else _build_folded(text, resources, folds)
        if system.label in systems:
            raise ConfigError(f"two systems are called {shown(system.label)}; give one of them a label: LABEL={text}")
        systems[system.label] = system
    if not systems:
        raise ConfigError("no system to evaluate")
    return tuple(systems.values())


def _build(text: str, resources: Mapping[str, Callable[[], Any]]) -> OneSystem:
    label, stage = parse_system(text)
    if stage.name in REWRITERS:
        return _rewriting(label, stage)
    compressor = registry.build("compressor", stage.name, stage.options, resources)
    return ContextSystem(label, compressor, stage_identity("compressor", stage, resources))


def _rewriting(label: str, stage: StageSettings) -> RewritingSystem:
    from rag.compressors.llmlingua import LlmLingua

    if unknown := sorted(stage.options.keys() - {"attempts"}):
        raise ConfigError(f"{stage.name}: unknown options {', '.join(unknown)}; accepted: attempts")
    rewriter = LlmLingua(method=REWRITERS[stage.name], **stage.options)
    return RewritingSystem(label, rewriter, {"name": stage.name, "options": {"attempts": rewriter.attempts}})


def _build_folded(text: str, resources: Mapping[str, Callable[[], Any]], folds: int | None) -> FoldedSystem:
    if folds is None or folds < 2:
        raise InputError(f"system {shown(text)} has {FOLD}, which needs a number of folds of 2 or more, given {folds}")
    systems = tuple(_build(text.replace(FOLD, str(fold)), resources) for fold in range(folds))
    labels = {system.label for system in systems}
    label = labels.pop() if len(labels) == 1 else text
    return FoldedSystem(label, tuple(replace(system, label=label) for system in systems))


def _stage(data: object, where: str) -> StageSettings:
    try:
        return StageSettings.model_validate(data)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'stage'}: {item['msg']}" for item in error.errors())
        raise InputError(f"system {shown(where)}: {problems}; {_FORMS}") from None


def _read_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"system file {path}: {' '.join(str(error).split())}") from None
