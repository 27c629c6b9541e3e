"""What the numbers of an attention engine depend on: a learned artefact is refused where one of them is another."""

from __future__ import annotations

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

    def check(self, engine: Engine, what: str) -> None:
        """Raise `ArtefactError` where ``engine`` is another one, saying expected and found."""
        found = EngineIdentity.of(engine)
        for label, field in (("model", "fingerprint"), ("prompt template", "template"), ("layout", "layout")):
            expected, given = getattr(self, field), getattr(found, field)
            if expected != given:
                raise ArtefactError(f"{what} made with {self.model!r}: expected {label} {expected}, found {given}")
