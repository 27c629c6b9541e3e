"""Progress bars of evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rag.eval.ltr_data import Watch


def watching(visible: bool) -> Watch:
    """A progress bar on standard error around a sequence."""
    from rich.console import Console
    from rich.progress import track

    def watch(items: Sequence[Any], description: str) -> Iterable[Any]:
        return track(items, description, console=Console(stderr=True), disable=not visible)

    return watch
