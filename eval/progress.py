"""Progress bars of evaluations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag.eval.ltr_data import Watch


def watching(visible: bool) -> Watch:
    """A progress bar on standard error around a sequence."""
    from rich.console import Console
    from rich.progress import track

    def watch(items: Sequence[Any], description: str) -> Iterable[Any]:
        return track(items, description, console=Console(stderr=True), disable=not visible)

    return watch


@contextmanager
def progress_bar(visible: bool, total: int) -> Iterator[Callable[[str], None]]:
    """A bar on standard error; the function it gives moves it on by one and says at what."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not visible) as bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, advance=1, description=name)
