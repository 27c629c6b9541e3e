"""How the commands that learn to rank show and write what their orders are worth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag.eval.probe_training import Judgement


def show_judgements(judged: Mapping[str, Sequence[Judgement]]) -> None:
    """A table for each measure: the collections, and their orders with p against the first of them."""
    from rich.console import Console
    from rich.table import Table

    for measure, rows in judged.items():
        table = Table(
            "collection", "order by", measure, "p", title=f"{measure}; p against the first", title_justify="left"
        )
        for row in rows:
            for place, order in enumerate(row.orders):
                name = "" if place else f"{row.collection}, {row.lists} lists"
                table.add_row(name, order.name, f"{order.mean:.4f}", "" if order.p is None else f"{order.p:.4f}")
            table.add_section()
        Console().print(table)


def write_judgements(path: Path | None, judged: Mapping[str, Sequence[Judgement]], **more: Any) -> None:
    """The same as JSON, with ``more`` beside it; nothing without a path."""
    if path:
        record: dict[str, Any] = {name: [asdict(row) for row in rows] for name, rows in judged.items()}
        path.write_text(json.dumps(record | more, indent=1) + "\n", encoding="utf-8")
