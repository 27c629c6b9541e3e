"""``rag serve``: the HTTP service, and keys for it."""

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
    log_format: Annotated[str | None, typer.Option(help="text or json.", show_default=False)] = None,
    new_key: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Make an API key, print it and its settings, and end.", show_default=False),
    ] = None,
) -> None:
    """Start the HTTP service."""
    if new_key is not None:
        typer.echo(_new_key(new_key))
        return
    settings = load_settings(
        config,
        device=device,
        model=model,
        server__host=host,
        server__port=port,
        server__workers=workers,
        server__log_format=log_format,
    )
    from rag.api.server import serve as start

    start(settings)


def _new_key(name: str) -> str:
    """A new key, which is kept nowhere, and the settings that make the service take it."""
    import yaml

    from rag.api.keys import new_key
    from rag.config import Settings

    key, digest = new_key()
    made = Settings(server={"keys": [{"name": name, "sha256": digest}]}).server.keys[0]
    entry = made.model_dump(mode="json", exclude_none=True)
    settings = yaml.safe_dump({"server": {"keys": [entry]}}, sort_keys=False)
    return f"# The key, shown this once: send it as  Authorization: Bearer {key}\n{settings}".rstrip()
