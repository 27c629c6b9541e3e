"""What learned artefacts have in common: the engine they belong to, and the queries they were learned from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import pydantic

from rag.attention.types import Engine
from rag.errors import ArtefactError


class EngineIdentity(pydantic.BaseModel, frozen=True, extra="forbid"):
    """Model (its name is for people, its fingerprint counts), prompt wording and layout."""

    model: str
    fingerprint: str
    template: str
    layout: str

    @classmethod
    def of(cls, engine: Engine) -> Self:
        """The identity of what is loaded."""
        info: dict[str, Any] = engine.info()
        return cls(**{name: info[name] for name in cls.model_fields})

    def matches(self, engine: Engine) -> bool:
        """Whether ``engine`` is the one this was made with; names do not count."""
        found = EngineIdentity.of(engine)
        return (self.fingerprint, self.template, self.layout) == (found.fingerprint, found.template, found.layout)

    def check(self, engine: Engine, what: str) -> None:
        """Raise `ArtefactError` where ``engine`` is another one, saying expected and found."""
        found = EngineIdentity.of(engine)
        for label, field in (("model", "fingerprint"), ("prompt template", "template"), ("layout", "layout")):
            expected, given = getattr(self, field), getattr(found, field)
            if expected != given:
                raise ArtefactError(f"{what} made with {self.model!r}: expected {label} {expected}, found {given}")


class TrainedOn(pydantic.BaseModel, frozen=True, extra="forbid"):
    """One collection that was learned from: its name, the judgements used, and the digests of its queries' texts."""

    collection: str
    split: str
    queries: tuple[str, ...]


def seen(data: Sequence[TrainedOn], queries: Mapping[str, str]) -> tuple[str, ...]:
    """Those query ids of ``queries`` (id to text) whose text was learned from: they may not judge the artefact."""
    known = {digest for source in data for digest in source.queries}
    return tuple(name for name, text in queries.items() if query_digest(text) in known)


def query_digest(text: str) -> str:
    """Short digest of a query, blind to case and white space."""
    return hashlib.sha256(" ".join(text.casefold().split()).encode("utf-8", "surrogatepass")).hexdigest()[:12]
