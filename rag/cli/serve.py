"""``rag serve``: the HTTP service."""

from __future__ import annotations

from typing import Annotated

import typer

from rag.cli.options import Config, Device, Model, load_settings


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default=False)] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default=False)] = None,
    config: Config = None,
    device: Device = None,
    model: Model = None,
    workers: Annotated[int | None, typer.Option(help="Processes, each with its own model.", show_default=False)] = None,
) -> None:
    """Start the HTTP service."""
    settings = load_settings(
        config, device=device, model=model, server__host=host, server__port=port, server__workers=workers
    )
    from rag.api.server import serve as start

    start(settings)
