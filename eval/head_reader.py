"""What readers of features from attention share: which heads they look at, and what their values depend on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from rag.attention.engine import AttentionEngine
from rag.attention.types import Head
from rag.eval.probe_fit import Column

_DECIDES = ("fingerprint", "template", "layout", "window_tokens", "dtype")


def read_with(engine: AttentionEngine) -> dict[str, Any]:
    """What of an engine decides the values that are read with it, as JSON values."""
    info = engine.info()
    return {name: info[name] for name in _DECIDES}


@dataclass(frozen=True)
class HeadReader:
    """Reads every head of the lowest ``layers`` layers.

    A subclass says by name which statistics of each head it makes, and which signals beside them, in this order.
    """

    statistics: ClassVar[tuple[str, ...]]
    signals: ClassVar[tuple[str, ...]] = ()

    engine: AttentionEngine
    layers: int

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """The heads that are read."""
        return tuple(head for head in self.engine.all_heads() if head.layer < self.layers)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """What the features are."""
        return (*(Column(name, head) for name in self.statistics for head in self.heads), *map(Column, self.signals))

    def header(self) -> dict[str, Any]:
        """What the values depend on."""
        return {"features": [str(column) for column in self.columns], "engine": read_with(self.engine)}
