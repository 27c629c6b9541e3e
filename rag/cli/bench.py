"""``rag bench``: speed, memory and exactness, as figures measured in one run on one machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from rag.cli.bench_serve import serve
from rag.errors import InputError, ModelOutputError

bench_app = typer.Typer(no_args_is_help=True, help="Benchmarks: engine, serve, peers, rerankers, retrieval, gpu.")

Model = Annotated[str, typer.Option(help="Model to run.")]
Counts = Annotated[str, typer.Option(help="Numbers of passages, with commas.")]
Batch = Annotated[str, typer.Option(help="Numbers of queries per pass, with commas; empty for none.")]
Tokens = Annotated[int, typer.Option(min=10, help="Tokens per passage, about.")]
Repeats = Annotated[int, typer.Option(min=1, help="Repeats of each measurement.")]
Plot = Annotated[Path | None, typer.Option(help="Draw seconds over passages here (PNG or SVG).")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures here.")]
Progress = Annotated[bool, typer.Option(help="Say what is being measured.")]


@bench_app.command()
def engine(
    model: Model = "smollm2-135m",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or mps.")] = "cpu",
    counts: Counts = "10,20,25,50,100,200,400",
    batch: Batch = "1,4,16",
    tokens: Tokens = 100,
    repeats: Repeats = 3,
    memory: Annotated[
        str, typer.Option(help="Numbers of passages to measure resident memory with; empty for none.")
    ] = "100,400",
    quality: Annotated[
        Path | None, typer.Option(help="BEIR folder to measure nDCG@10 over cache precision with.", show_default=False)
    ] = None,
    split: Annotated[str, typer.Option(help="Which qrels of the folder.")] = "train",
    queries: Annotated[str | None, typer.Option(help="File of queries inside the folder.", show_default=False)] = None,
    count: Annotated[int, typer.Option(min=1, help="How many of its queries, drawn at random (seed 1).")] = 30,
    candidates: Annotated[int, typer.Option(min=2, help="BM25 candidates per query.")] = 10,
    plot: Plot = None,
    json_file: Json = None,
    progress: Progress = True,
) -> None:
    """In-context reranking as published against cold and warm blocks, for growing lists; memory; cache precision.

    An empty --counts leaves the first out: --counts "" --batch "" --memory "" --quality FOLDER.
    """
    from rich.console import Console

    from rag.attention.decoder import Decoder
    from rag.demo_data import demo_corpus
    from rag.eval import bench_engine, bench_memory, bench_quality, bench_tables
    from rag.eval.bench_plot import plot as draw

    numbers, batches_of, memory_of = (_numbers(text) for text in (counts, batch, memory))
    if not (numbers or batches_of or memory_of or quality):
        raise InputError("nothing to measure: --counts, --batch and --memory are empty and there is no --quality")
    labelled = bench_quality.labelled(quality, split, queries, count, candidates) if quality else None
    console = Console()
    texts = [document.text for document in demo_corpus()]
    record: dict[str, Any] = {"benchmark": "engine", "model": model, "tokens": tokens, "repeats": repeats}
    with Console(stderr=True).status("loading") as status:
        step: Callable[[str], None] = (lambda line: status.update(line)) if progress else (lambda _: None)
        decoder = Decoder.load(model, device=device)
        record["machine"] = bench_engine.machine()
        measured = bench_engine.sizes(decoder, texts, numbers, tokens=tokens, repeats=repeats, step=step)
        rows = record["sizes"] = [size.row() for size in measured]
        record["growth"] = bench_engine.exponents(rows)
        step("batches")
        record["batches"] = bench_engine.batches(decoder, texts, batches_of, repeats=repeats)
        record["memory"] = [item.row() for item in bench_memory.memory(model, device, memory_of, tokens, step)]
        if labelled is not None:
            qualities = bench_quality.precisions(decoder, *labelled, step=step)
            record["quality"] = {
                "collection": labelled[0].name,
                "split": split,
                "queries": len(labelled[0].queries),
                "candidates": candidates,
                "precisions": [item.row() for item in qualities],
            }
    _write(record, json_file)
    if rows:
        console.print("ICR: in-context reranking as published. cold, warm: blocks read for the first time, and known.")
        console.print(bench_tables.table(f"\n{model}: seconds per query, MiB", bench_tables.SIZES, rows))
    if record["growth"]:
        console.print(bench_tables.growth_line(record["growth"]))
    if record["batches"]:
        title = "\n20 warm passages per query"
        console.print(bench_tables.table(title, bench_tables.BATCHES, record["batches"]))
    if record["memory"]:
        title = "\nresident memory, MiB: excess is what is held beside budget and model, imports are part of it"
        console.print(bench_tables.table(title, bench_tables.MEMORY, record["memory"]))
    if labelled is not None:
        title = f"\ncache precision: {len(labelled[0].queries)} queries of {labelled[0].name}, BM25's {candidates} best"
        console.print(bench_tables.table(title, bench_tables.QUALITY, record["quality"]["precisions"]))
    if plot:
        draw(rows, record["growth"], plot)


@bench_app.command()
def gpu(
    model: Model = "smollm2-135m",
    device: Annotated[str, typer.Option(help="cuda, cuda:N, mps, or cpu (to try the command).")] = "cuda",
    counts: Counts = "10,25,50,100,200,400",
    batch: Batch = "1,4,16",
    tokens: Tokens = 100,
    repeats: Repeats = 3,
    plot: Plot = None,
    json_file: Json = None,
    progress: Progress = True,
) -> None:
    """Compare every path of the engine on a GPU with the CPU, then measure it there in bfloat16.

    Takes a few minutes. Ends with an error where a path is further from the CPU than accepted.
    """
    from rich.console import Console

    from rag.attention.decoder import Decoder
    from rag.demo_data import demo_corpus
    from rag.eval import bench_engine, bench_gpu, bench_tables
    from rag.eval.bench_plot import plot as draw

    bench_gpu.require_device(device)
    numbers, batches_of = _numbers(counts), _numbers(batch)
    console = Console()
    texts = [document.text for document in demo_corpus()]
    record: dict[str, Any] = {"benchmark": "gpu", "model": model, "tokens": tokens, "repeats": repeats}
    with Console(stderr=True).status("loading") as status:
        step: Callable[[str], None] = (lambda line: status.update(line)) if progress else (lambda _: None)
        record["machine"] = bench_engine.machine() | {"device": bench_gpu.device_name(device)}
        checks = bench_gpu.checks(model, device, texts, step=step)
        record["checks"] = [check.row() for check in checks]
        _write(record, json_file)  # the machine may be gone before the rest is done
        console.print(bench_tables.table(f"{model} on {device} against the CPU", bench_tables.CHECKS, record["checks"]))
        decoder = Decoder.load(model, device=device, dtype="bfloat16")
        measured = bench_engine.sizes(
            decoder, texts, numbers, tokens=tokens, repeats=repeats, precision="bfloat16", step=step
        )
        rows = record["sizes"] = [size.row() for size in measured]
        record["growth"] = bench_engine.exponents(rows)
        step("batches")
        record["batches"] = bench_engine.batches(decoder, texts, batches_of, repeats=repeats, precision="bfloat16")
    _write(record, json_file)
    console.print(bench_tables.table(f"\n{model}: seconds per query, MiB", bench_tables.SIZES, rows))
    if record["growth"]:
        console.print(bench_tables.growth_line(record["growth"]))
    if record["batches"]:
        console.print(bench_tables.table("\n20 warm passages per query", bench_tables.BATCHES, record["batches"]))
    if plot:
        draw(rows, record["growth"], plot)
    if wrong := [check.path for check in checks if not check.right]:
        raise ModelOutputError(f"{device} is further from the CPU than accepted: {', '.join(wrong)}")


def _numbers(text: str) -> list[int]:
    """The numbers of a list with commas, in order; none of an empty text."""
    if not text.strip():
        return []
    try:
        numbers = sorted({int(part) for part in text.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 1:
        raise InputError(
            f"{text!r} is not a list of numbers; accepted: whole numbers of 1 or more, with commas, or nothing"
        )
    return numbers


def _write(record: dict[str, Any], path: Path | None) -> None:
    if path is not None:
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


bench_app.command("serve")(serve)
