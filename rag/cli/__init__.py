"""The command ``rag``: context, serve, demo, index, heads, eval, bench, models, config."""

from rag.cli.app import main

__all__ = ["main"]
