"""The command ``rag``: context, serve, demo, models, config."""

from rag.cli.app import main

__all__ = ["main"]
