"""``rag bench``: speed as ratios between things measured in one run on one machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

bench_app = typer.Typer(no_args_is_help=True, help="Benchmarks: engine.")


@bench_app.callback()
def _group() -> None:
    """Keep `engine` a command of its own."""


@bench_app.command()
def engine(
    model: Annotated[str, typer.Option(help="Model to run.")] = "smollm2-135m",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or mps.")] = "cpu",
    counts: Annotated[str, typer.Option(help="Numbers of passages, with commas.")] = "10,20,50,100,200,400",
    batch: Annotated[str, typer.Option(help="Numbers of queries per pass, with commas; empty for none.")] = "1,4,16",
    tokens: Annotated[int, typer.Option(min=10, help="Tokens per passage, about.")] = 100,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each measurement.")] = 3,
    plot: Annotated[Path | None, typer.Option(help="Draw seconds over passages here (PNG or SVG).")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
    progress: Annotated[bool, typer.Option(help="Say what is being measured.")] = True,
) -> None:
    """In-context reranking as published against cold and warm blocks, for growing lists."""
    from rich.console import Console
    from rich.table import Table

    from rag.attention.decoder import Decoder
    from rag.demo_data import demo_corpus
    from rag.eval import bench_engine as bench

    console, notes = Console(), Console(stderr=True)
    texts = [document.text for document in demo_corpus()]
    numbers = _numbers(counts)
    with notes.status("loading") as status:
        decoder = Decoder.load(model, device=device)
        measured = bench.sizes(
            decoder,
            texts,
            numbers,
            tokens=tokens,
            repeats=repeats,
            step=(lambda line: status.update(line)) if progress else (lambda _: None),
        )
        rows = [size.row() for size in measured]
        status.update("batches")
        batches = bench.batches(decoder, texts, _numbers(batch), repeats=repeats) if batch else []
    large = [row for row in rows if row["passages"] >= 25]
    growth = {
        name: bench.growth([row["passages"] for row in large], [row[name] for row in large])
        for name in ("cold_s", "warm_s", "cache_mib")
        if len(large) > 1
    }
    console.print("ICR: in-context reranking as published. cold, warm: blocks read for the first time, and known.\n")
    table = Table(title=f"{model}: seconds per query, MiB", title_justify="left", box=None, pad_edge=False)
    for name in ("passages", "tokens", "ICR", "cold", "warm", "ICR/cold", "ICR/warm", "cache", "resident", "noisy"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            str(row["passages"]),
            str(row["tokens"]),
            *(_cell(row[name], "{:.3g}") for name in ("published_s", "cold_s", "warm_s")),
            *(
                _cell(row[name], "{:.1f}")
                for name in ("published_over_cold", "published_over_warm", "cache_mib", "resident_mib")
            ),
            "yes" if row["noisy"] else "",
        )
    console.print(table)
    if growth:
        console.print(
            "growth with the number of passages, from 25 on: "
            + ", ".join(f"{name} ~ N^{value:.2f}" for name, value in growth.items())
        )
    if batches:
        many = Table(
            "queries per pass",
            "one list: s/query",
            "own lists: s/query",
            title="20 warm passages per query",
            title_justify="left",
        )
        for row in batches:
            many.add_row(
                str(row["queries"]), f"{row['one_list_s_per_query']:.4f}", f"{row['own_lists_s_per_query']:.4f}"
            )
        console.print(many)
    record = {
        "benchmark": "engine",
        "model": model,
        "tokens": tokens,
        "repeats": repeats,
        "machine": bench.machine(),
        "sizes": rows,
        "growth": growth,
        "batches": batches,
    }
    if json_file:
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if plot:
        _plot(rows, plot)


def _numbers(text: str) -> list[int]:
    from rag.errors import InputError

    try:
        numbers = sorted({int(part) for part in text.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 1:
        raise InputError(f"{text!r} is not a list of numbers; accepted: whole numbers of 1 or more, with commas")
    return numbers


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _plot(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(6, 4), layout="constrained")).subplots()
    for name, label in (("published_s", "ICR as published"), ("cold_s", "blocks, cold"), ("warm_s", "blocks, warm")):
        points = [(row["passages"], row[name]) for row in rows if row[name] is not None]
        axes.loglog(*zip(*points, strict=True), marker="o", label=label)
    axes.set_xlabel("passages in the list")
    axes.set_ylabel("seconds per query")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
