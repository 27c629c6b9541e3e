"""``rag demo``: see it at work."""

from __future__ import annotations

from typing import Annotated

import typer

from rag.cli.options import Config, Device, load_settings


def demo(
    port: Annotated[int, typer.Option(help="Port of the demo's service; 0 takes a free one.")] = 0,
    config: Config = None,
    device: Device = None,
) -> None:
    """Answer two real questions over 60 passages, through the real service."""
    settings = load_settings(config, device=device)
    from rich.console import Console

    from rag.api.demo import run_demo

    run_demo(Console(), settings, port)
