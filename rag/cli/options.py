"""Flags that several commands share, and how they become settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rag.config import Settings

Config = Annotated[Path | None, typer.Option("--config", "-c", help="YAML file with settings.", show_default=False)]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.", show_default=False)]
Model = Annotated[str | None, typer.Option(help="Attention model: a name, a folder, a GGUF file.", show_default=False)]


def load_settings(config: Path | None, **flags: Any) -> Settings:
    """Settings from the file, the environment and those flags that were given (not None), weakest first.

    A double underscore in a flag's name reaches into a section: ``server__port``.
    """
    from rag.config import Settings

    explicit: dict[str, Any] = {}
    for name, value in flags.items():
        if value is not None:
            *sections, key = name.split("__")
            place = explicit
            for section in sections:
                place = place.setdefault(section, {})
            place[key] = value
    return Settings.load(config, **explicit)
