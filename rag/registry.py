"""One table per kind of stage, filled by a decorator; stages are found by name in a configuration.

Adding a method is one file: a class whose constructor takes the shared parts it needs by name
(``engine``, ``embedder``) and its own options as keyword arguments with type hints. Options are
checked against those hints, so a wrong name or type in a YAML file is refused with what is accepted.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, get_type_hints

import pydantic

from rag.errors import ConfigError, InputError, shown

Kind = Literal["retriever", "reranker", "compressor", "ordering"]
T = TypeVar("T", bound=type)

# Modules that register the stages of a kind when imported; loaded on first look-up, not at import of rag.
_MODULES: dict[Kind, str] = {
    "retriever": "rag.retrievers",
    "reranker": "rag.rerankers",
    "compressor": "rag.compressors",
    "ordering": "rag.compressors.ordering",
}
_STAGES: dict[Kind, dict[str, type]] = {kind: {} for kind in _MODULES}


def register(kind: Kind, name: str) -> Callable[[T], T]:
    """Class decorator: make a stage known under ``name``; a name can be taken only once."""

    def decorate(cls: T) -> T:
        if _STAGES[kind].get(name, cls) is not cls:
            raise ConfigError(f"{kind} {name!r} is already registered by {_STAGES[kind][name]}")
        _STAGES[kind][name] = cls
        return cls

    return decorate


def names(kind: Kind) -> tuple[str, ...]:
    """The known stage names of a kind, sorted."""
    importlib.import_module(_MODULES[kind])
    return tuple(sorted(_STAGES[kind]))


def stage_class(kind: Kind, name: str) -> type:
    """The class registered under ``name``; an unknown name is a `ConfigError` listing the known ones."""
    known = names(kind)
    if name not in known:
        raise ConfigError(f"unknown {kind} {shown(name)}; known: {', '.join(known)}")
    return _STAGES[kind][name]


@cache
def _options_model(cls: type, resources: tuple[str, ...]) -> type[pydantic.BaseModel]:
    """A pydantic model of a stage's own options, made from its constructor's signature."""
    constructor: Any = cls.__init__  # type: ignore[misc]
    hints = get_type_hints(constructor)
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(cls).parameters.values()):
        if parameter.name in resources:
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return pydantic.create_model(f"{cls.__name__}Options", __config__=config, **fields)


def check_options(kind: Kind, name: str, options: Mapping[str, Any], resources: tuple[str, ...]) -> dict[str, Any]:
    """Validate a stage's options without building it; returns them converted to the hinted types."""
    model = _options_model(stage_class(kind, name), resources)
    try:
        checked = model.model_validate(dict(options))
    except pydantic.ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc']))}: {item['msg']} (given {shown(item['input'])})"
            for item in error.errors()
        )
        accepted = ", ".join(model.model_fields) or "none"
        raise ConfigError(f"{kind} {name!r}: {problems}; accepted options: {accepted}") from None
    return {field: getattr(checked, field) for field in model.model_fields if field in checked.model_fields_set}


def build(kind: Kind, name: str, options: Mapping[str, Any], resources: Mapping[str, Callable[[], Any]]) -> Any:
    """Make the stage ``name`` from its options.

    ``resources`` maps a constructor parameter (``engine``, ``embedder``) to a function that gives the
    shared part; it is called only where the stage asks for that part, so heavy parts load on first use.

    Raises:
        ConfigError: an unknown name or option, or a value that the stage refuses.
    """
    cls = stage_class(kind, name)
    checked = check_options(kind, name, options, tuple(resources))
    wanted = inspect.signature(cls).parameters
    shared = {part: give() for part, give in resources.items() if part in wanted}
    try:
        return cls(**shared, **checked)
    except InputError as error:
        raise ConfigError(f"{kind} {name!r}: {error}") from None


class _NotLoadedError(Exception):
    """A stage asked for something of a part that is not there yet."""


class _NotLoaded:
    """Stands for a shared part while a stage is only checked."""

    def __getattr__(self, name: str) -> Any:
        raise _NotLoadedError(name)


def check(kind: Kind, name: str, options: Mapping[str, Any], resources: tuple[str, ...]) -> dict[str, Any]:
    """`check_options`, and what the constructor checks beyond types, as far as it can be known without a model.

    Raises:
        ConfigError: see `build`.
    """
    checked = check_options(kind, name, options, resources)
    with contextlib.suppress(_NotLoadedError):  # the rest depends on the model, and is checked when that is there
        build(kind, name, options, dict.fromkeys(resources, _NotLoaded))
    return checked
