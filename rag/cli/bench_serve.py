"""``rag bench serve``: the HTTP service under load, as ratios measured in one run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli.options import Config, Device, Model, load_settings

if TYPE_CHECKING:
    from rag.config import Settings


def serve(
    clients: Annotated[int, typer.Option(min=1, help="Clients at once.")] = 32,
    each: Annotated[int, typer.Option(min=1, help="Requests per client.")] = 8,
    passages: Annotated[int, typer.Option(min=1, help="Passages per request.")] = 20,
    corpus: Annotated[Path | None, typer.Option(help="JSONL of documents in place of the demo's.")] = None,
    minutes: Annotated[float, typer.Option(min=0, help="Then keep it saturated for so long.")] = 0,
    target: Annotated[float, typer.Option(min=0.1, help="Paced load, times that of one client alone.")] = 3.0,
    config: Config = None,
    device: Device = None,
    model: Model = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
    progress: Annotated[bool, typer.Option(help="Say what is being measured.")] = True,
) -> None:
    """One server process, many clients: throughput and latency against the same requests one at a time.

    Run it on an otherwise idle machine: clients and server share its cores.
    """
    from rich.console import Console
    from rich.table import Table

    console, notes = Console(), Console(stderr=True)
    settings = load_settings(config, device=device, model=model)
    with notes.status("starting") as status:
        record = _measure(
            settings,
            corpus,
            clients=clients,
            each=each,
            passages=passages,
            minutes=minutes,
            target=target,
            step=(lambda line: status.update(line)) if progress else (lambda _: None),
        )
    table = Table(title=f"{clients} clients, {passages} passages each, warm", title_justify="left", box=None)
    for name in ("load", "requests", "per second", "p50 s", "p95 s", "x alone", "p95 / alone", "statuses"):
        table.add_column(name, justify="left" if name == "load" else "right", overflow="fold")
    for row in record["loads"]:
        table.add_row(
            row["load"],
            str(row["requests"]),
            f"{row['per_second']:.2f}",
            *(f"{row[name]:.3f}" if name in row else "-" for name in ("p50_s", "p95_s")),
            *(f"{row[name]:.2f}" if name in row else "-" for name in ("throughput_ratio", "p95_ratio")),
            _counts(row["statuses"]),
        )
    console.print(table)
    cost = record["overhead"]
    console.print(
        f"an idle server adds {1000 * cost['overhead_s']:.1f} ms to the library's {1000 * cost['library_s']:.1f} ms"
    )
    if "saturation" in record:
        held, memory = record["saturation"], record["saturation"]["memory"]
        console.print(
            f"{minutes:g} minutes saturated: {_counts(held['statuses'])}; memory of the server "
            f"{memory['start_mib']:.0f} MiB at the start, {memory['end_mib']:.0f} at the end, "
            f"{memory['peak_mib']:.0f} at most, growth {memory['growth']:+.1%}"
        )
    if json_file:
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _counts(statuses: dict[str, int]) -> str:
    return " ".join(f"{status}:{count}" for status, count in statuses.items())


def _measure(
    settings: Settings,
    corpus: Path | None,
    *,
    clients: int,
    each: int,
    passages: int,
    minutes: float,
    target: float,
    step: Any,
) -> dict[str, Any]:
    from rag.api.process import running
    from rag.corpus import read_documents
    from rag.demo_data import demo_corpus, demo_queries
    from rag.errors import InputError
    from rag.eval import bench_serve as bench
    from rag.eval.bench_engine import machine
    from rag.pipeline import Pipeline

    documents = read_documents([corpus]) if corpus else demo_corpus()
    if len(documents) < passages:
        raise InputError(f"the corpus has {len(documents)} documents; accepted: {passages} passages or more")
    queries = [query["text"] for query in demo_queries()]
    made = {
        name: bench.bodies(documents, queries, clients, each, passages, own)
        for name, own in (("one list", False), ("own lists", True))
    }
    loads: list[dict[str, Any]] = []
    with running(settings) as server:
        step("loading the models")
        server.wait_ready()
        step("reading every document once")
        every = [{"query": queries[0], "documents": [_plain(item)], "budget": "100%"} for item in documents]
        asyncio.run(bench.alone(server.url, every))
        for name, requests in made.items():
            flat = [body for mine in zip(*requests, strict=True) for body in mine][: max(8, 2 * clients)]
            asyncio.run(bench.alone(server.url, flat[:2]))
            step(f"{name}: one at a time")
            solo = asyncio.run(bench.alone(server.url, flat))
            step(f"{name}: {clients} clients")
            many = asyncio.run(bench.together(server.url, [bench.reworded(mine, "now") for mine in requests]))
            step(f"{name}: paced at {target:g} x")
            spread = asyncio.run(bench.paced(server.url, bench.reworded(flat, "then"), target * solo.throughput))
            loads += [
                {"load": f"{name}, alone", **solo.row()},
                {"load": f"{name}, {clients} clients", **many.row(), **bench.comparison(solo, many)},
                {"load": f"{name}, paced {target:g} x", **spread.row(), **bench.comparison(solo, spread)},
            ]
        held: dict[str, Any] = {}
        if minutes:
            load = asyncio.run(
                bench.saturated(
                    server.url,
                    made["own lists"],
                    60 * minutes,
                    server.process.pid,
                    lambda seconds: step(f"saturated for {seconds:.0f} of {60 * minutes:.0f} s"),
                )
            )
            held = {**load.row(), "memory": load.memory(), "resident_mib": load.resident_mib}
        step("against the library")
        pipeline = Pipeline(settings).warm()

        def call(body: dict[str, Any]) -> Any:
            return pipeline.run(body["query"], body["documents"], retrieve_k=body["retrieve_k"])

        mine = bench.reworded(made["one list"][0], "at last")
        call(mine[0])
        cost = bench.overhead(server.url, mine * 3, call)
    record = {
        "benchmark": "serve",
        "clients": clients,
        "each": each,
        "passages": passages,
        "machine": machine(),
        "pipeline": pipeline.describe(),
        "loads": loads,
        "overhead": cost,
    }
    return record | ({"saturation": held} if held else {})


def _plain(document: Any) -> dict[str, Any]:
    return {"id": document.id, "title": document.title, "text": document.text}
