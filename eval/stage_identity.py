"""What decides the work of a stage, as JSON values: what was made with one is never taken for that of another."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rag import registry
from rag.config import StageSettings


def stage_identity(kind: registry.Kind, stage: StageSettings, parts: Iterable[str]) -> dict[str, Any]:
    """The name and the options of a stage; ``parts`` are the shared ones that `rag.registry.build` gives it.

    Raises:
        ConfigError: an unknown stage, or an option that it refuses.
    """
    options = registry.check_options(kind, stage.name, stage.options, tuple(parts))
    return {"name": stage.name, "options": {name: json_value(value) for name, value in options.items()}}


def json_value(value: Any) -> Any:
    """An option as a JSON value; a file by name and content, so that another artefact of the same name is another."""
    if isinstance(value, str | Path) and os.path.isfile(value):
        return {"file": str(value), "digest": hashlib.blake2b(Path(value).read_bytes(), digest_size=8).hexdigest()}
    if isinstance(value, tuple | list):
        return [json_value(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else str(value)
