"""The orderings that `rag order effects` compares: named on the command line, built, told apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rag import registry
from rag.compressors.ordering.slot_profile import shipped
from rag.errors import ConfigError, shown
from rag.eval.context_systems import parse_system
from rag.eval.stage_identity import stage_identity
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
        built[label] = registry.build("ordering", stage.name, stage.options, parts)
        identities[label] = stage_identity("ordering", stage, parts)
    return built, identities
