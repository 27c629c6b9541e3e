"""What artefacts have in common: their JSON files, the engine they belong to, the queries they were learned from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import pydantic

from rag.attention.types import Engine
from rag.errors import ArtefactError, ConfigError

T = TypeVar("T")


class Artefact(pydantic.BaseModel, frozen=True, extra="forbid"):
    """Something measured or learned that is kept as a JSON file.

    ``refusal`` is what is said of a file that cannot be read as one.
    """

    refusal: ClassVar[str]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file.

        Raises:
            ArtefactError: it cannot be read as one; names the file.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise ArtefactError(f"{path} {cls.refusal}: {error}") from None

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @classmethod
    def shipped_in(cls, *folder: str) -> tuple[Self, ...]:
        """Those that come with the package in a folder of ``rag/data``, by the names of their files."""
        place = resources.files("rag").joinpath("data", *folder)
        files = sorted((item for item in place.iterdir() if item.name.endswith(".json")), key=lambda item: item.name)
        return tuple(cls.model_validate_json(item.read_bytes()) for item in files)


def require_same(artefact: str, *parts: tuple[str, str, str]) -> None:
    """Raise `ArtefactError` for the first of ``parts`` (its name, expected, found) in which the two differ."""
    for what, expected, found in parts:
        if expected != found:
            raise ArtefactError(f"{artefact}: expected {what} {expected}, found {found}")


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
        require_same(
            f"{what} made with {self.model!r}",
            ("model", self.fingerprint, found.fingerprint),
            ("prompt template", self.template, found.template),
            ("layout", self.layout, found.layout),
        )


def shipped_for(engine: Engine, what: str, shipped: Iterable[tuple[EngineIdentity, T]], remedy: str) -> T:
    """The first of the artefacts that ship, each with what it was made with, that belongs to ``engine``.

    Raises:
        ConfigError: none does; says which models are known, and the ``remedy``.
    """
    made = list(shipped)
    found = next((item for identity, item in made if identity.matches(engine)), None)
    if found is None:
        known = ", ".join(sorted({identity.model for identity, _ in made})) or "none"
        raise ConfigError(
            f"no {what} ships for model {engine.info()['model']!r} with this prompt and layout; "
            f"known: {known}. {remedy}"
        )
    return found


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
