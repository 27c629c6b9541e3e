"""The compressors that `rag eval context` compares: named on the command line or in a file, built, told apart."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml
from pydantic import ValidationError

from rag import registry
from rag.config import StageSettings
from rag.errors import ConfigError, InputError, shown
from rag.eval.folds import fold_of
from rag.stages import Compressor, Reranker, Retriever
from rag.types import Document, Query, ScoredDocument

if TYPE_CHECKING:
    from rag.attention.types import Attender, AttentionSpec

FOLD = "{fold}"
_FORMS = "accepted: NAME, NAME:option=value,option=value, LABEL=NAME:..., LABEL=FILE.yaml with name and options"


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


@dataclass(frozen=True)
class FoldedSystem:
    """One label, and a compressor per fold: each question is judged by the one that has not learned from its fold."""

    label: str
    folds: tuple[ContextSystem, ...]

    @property
    def identity(self) -> Mapping[str, Any]:
        """What decides the choice in each fold."""
        return {"folds": [system.identity for system in self.folds]}

    def at(self, question: str) -> ContextSystem:
        """The system of the fold that the question of this id is in."""
        return self.folds[fold_of(question, len(self.folds))]


System: TypeAlias = ContextSystem | FoldedSystem


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


def _build(text: str, resources: Mapping[str, Callable[[], Any]]) -> ContextSystem:
    label, stage = parse_system(text)
    options = registry.check_options("compressor", stage.name, stage.options, tuple(resources))
    compressor = registry.build("compressor", stage.name, stage.options, resources)
    identity = {"name": stage.name, "options": {key: _plain(value) for key, value in options.items()}}
    return ContextSystem(label, compressor, identity)


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


def _plain(value: Any) -> Any:
    """An option as a JSON value; a file by name and content, so that another artefact of the same name is another."""
    if isinstance(value, Path):
        digest = hashlib.blake2b(value.read_bytes(), digest_size=8).hexdigest() if value.is_file() else None
        return {"file": str(value), "digest": digest}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else str(value)
