"""The HTTP service: ``create_app`` builds it, ``python -m rag.api`` serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag.api.app import create_app

__all__ = ["create_app"]


def __getattr__(name: str) -> Any:
    """Load the application module on first use: ``import rag.api`` alone stays cheap."""
    if name == "create_app":
        from rag.api.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
