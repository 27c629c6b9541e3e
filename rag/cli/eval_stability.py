"""``rag eval stability``: how much rankings depend on the order of the candidates."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli.options import Config, Model, load_settings

if TYPE_CHECKING:
    from rag.rerankers.order import OrderStability


class Layout(StrEnum):
    """How documents are read together."""

    block = "block"
    causal = "causal"


def stability(
    collection: Annotated[Path, typer.Argument(help="A BEIR folder or zip.")],
    system: Annotated[
        list[str] | None, typer.Option("--system", "-s", help="Reranker by name, repeatable. Default: icr.")
    ] = None,
    layout: Annotated[Layout, typer.Option(help="How documents are read together.")] = Layout.causal,
    split: Annotated[str, typer.Option(help="Which qrels.")] = "test",
    k: Annotated[int, typer.Option(min=2, help="BM25 candidates per query.")] = 10,
    orders: Annotated[int, typer.Option(min=2, help="Orders of each list: the given one and random ones.")] = 4,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first queries.")] = 10,
    model: Model = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Kendall's tau between the rankings of the same candidates in several orders, mean over queries.

    The block layout gives 1 for every attention reranker; the causal layout does not. The reranker
    permutation-average is for where that hurts.
    """
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from rag import registry
    from rag.eval.collections import load_beir
    from rag.eval.systems import found
    from rag.rerankers.order import order_stability
    from rag.resources import Resources

    source = load_beir(collection, split)
    settings = load_settings(config, model=model, engine__layout=layout.value)
    resources = Resources(settings)
    parts = {"engine": resources.engine, "embedder": resources.embedder}
    rerankers = {name: registry.build("reranker", name, {}, parts) for name in system or ["icr"]}
    lists = found(source, registry.build("retriever", "bm25", {}, parts), k)
    console = Console(stderr=True)
    figures: dict[str, dict[str, float]] = {}
    for name, reranker in rerankers.items():
        watched: Any = track(source.queries[:limit], name, console=console, disable=not progress)
        runs = [order_stability(reranker, query, lists(query), orders=orders) for query in watched]
        figures[name] = _mean(runs)
    if as_json:
        shown = {"collection": source.name, "layout": layout.value, "orders": orders, "systems": figures}
        typer.echo(json.dumps(shown, indent=1))
        return
    title = f"{source.name}, {layout.value} layout, {orders} orders"
    table = Table("reranker", "queries", "Kendall tau", "worst pair", "same first", title=title, title_justify="left")
    for name, row in figures.items():
        table.add_row(name, f"{row['queries']:.0f}", *(f"{row[key]:.3f}" for key in ("tau", "worst", "same_first")))
    Console().print(table)


def _mean(runs: list[OrderStability]) -> dict[str, float]:
    return {
        "queries": len(runs),
        "tau": fmean(run.mean_tau for run in runs),
        "worst": fmean(run.worst_tau for run in runs),
        "same_first": fmean(run.same_first for run in runs),
    }
