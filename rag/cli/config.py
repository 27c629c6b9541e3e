"""``rag config``: what is in force."""

from __future__ import annotations

import typer

from rag.cli.options import Config, load_settings

config_app = typer.Typer(no_args_is_help=True, help="Settings.")


@config_app.command()
def show(config: Config = None) -> None:
    """Print the effective settings as YAML: file, then environment (RAG_*), then defaults for the rest."""
    typer.echo(load_settings(config).to_yaml(), nl=False)


@config_app.callback()
def _group() -> None:
    """Settings."""
