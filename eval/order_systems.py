"""The orderings and the ranking that `rag order effects` compares: named on the command line, built, told apart."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rag import registry
from rag.compressors.ordering.slot_profile import shipped
from rag.config import Settings
from rag.errors import ConfigError, shown
from rag.eval.context_systems import Ranker, parse_system
from rag.stages import Ordering

Parts = Mapping[str, Callable[[], Any]]

DEFAULT_ORDERINGS = ("ranked", "reversed", "interleave", "attention-sort", "found-in-the-middle")


def default_orderings(fingerprint: str, template: str) -> tuple[str, ...]:
    """`DEFAULT_ORDERINGS`, and ``attnrank`` where a profile ships for the model."""
    known = {(profile.fingerprint, profile.template) for profile in shipped()}
    return (*DEFAULT_ORDERINGS, *(("attnrank",) if (fingerprint, template) in known else ()))


def build_orderings(given: Sequence[str], parts: Parts) -> tuple[dict[str, Ordering], dict[str, Any]]:
    """Orderings by label, and what decides each of them as JSON values.

    Args:
        given: in the forms of `rag.eval.context_systems.parse_system`.
        parts: what `rag.registry.build` takes.

    Raises:
        InputError: a form that is not accepted.
        ConfigError: two of one label, an unknown ordering, or an option that it refuses.
    """
    built: dict[str, Ordering] = {}
    identities: dict[str, Any] = {}
    for text in given:
        label, stage = parse_system(text)
        if label in built:
            raise ConfigError(f"two orderings are called {shown(label)}; give one of them a label: LABEL={text}")
        options = registry.check_options("ordering", stage.name, stage.options, tuple(parts))
        built[label] = registry.build("ordering", stage.name, stage.options, parts)
        identities[label] = {"name": stage.name, "options": {key: _identity(of) for key, of in options.items()}}
    return built, identities


def settings_ranker(settings: Settings, parts: Parts, top_n: int) -> tuple[Ranker, dict[str, Any]]:
    """The retriever and reranker of the settings, which keep ``top_n`` documents, and what they are as JSON values."""
    reranker = settings.reranker
    ranker = Ranker(
        registry.build("retriever", settings.retriever.name, settings.retriever.options, parts),
        registry.build("reranker", reranker.name, reranker.options, parts) if reranker else None,
        top_n,
    )
    stages = {"retriever": settings.retriever, "reranker": reranker}
    return ranker, {kind: stage and stage.model_dump(mode="json") for kind, stage in stages.items()}


def _identity(option: Any) -> Any:
    """A file by its content too: a profile that was measured anew under the same name is another one."""
    if isinstance(option, Path):
        return {"file": str(option), "digest": hashlib.blake2b(option.read_bytes(), digest_size=8).hexdigest()}
    return option
