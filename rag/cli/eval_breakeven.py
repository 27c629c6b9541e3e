"""``rag eval breakeven``: from which input length on, and for which reader, does compressing save time?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli.options import Config, load_settings

if TYPE_CHECKING:
    from rag.eval.breakeven import Length, ReaderRate

DEFAULT_TOKENS = (1000, 2000, 4000, 8000)

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([MB])")
_UNITS = {"M": 1e6, "B": 1e9}
_WAYS = {
    "after_reranker": "after the reranker, documents known",
    "after_reranker_new": "after the reranker, documents new",
    "warm": "alone, documents known",
    "cold": "alone, documents new",
}


def breakeven(
    system: Annotated[
        str | None,
        typer.Option(
            "--system",
            "-s",
            help="Compressor, as `rag eval context` takes it. Default: that of the settings.",
            show_default=False,
        ),
    ] = None,
    tokens: Annotated[
        list[int] | None,
        typer.Option(help="Input length, repeatable. Default: 1000, 2000, 4000, 8000.", show_default=False),
    ] = None,
    ratio: Annotated[float, typer.Option(help="Share of the tokens that is kept.")] = 0.2,
    rate: Annotated[
        list[str] | None, typer.Option(help="NAME=TOKENS_PER_SECOND: prefill rate of a reader, repeatable.")
    ] = None,
    size: Annotated[
        str, typer.Option(help="Readers estimated from the measured one by their parameters, with commas; M or B.")
    ] = "360M,1.7B,8B,70B",
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each measurement.")] = 3,
    config: Config = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
    progress: Annotated[bool, typer.Option(help="Say what is being measured.")] = True,
) -> None:
    """Measure compression and prefill on this machine, and set them against readers of other speeds."""
    from rich.console import Console

    from rag import registry
    from rag.demo_data import demo_corpus
    from rag.errors import ConfigError
    from rag.eval import breakeven as measuring
    from rag.eval.bench_engine import NOISY_SPREAD, machine
    from rag.eval.context_systems import parse_system
    from rag.resources import Resources, load_engine

    stated = dict(map(_rate, rate or []))
    sizes = {part.strip(): _parameters(part.strip()) for part in size.split(",") if part.strip()}
    settings = load_settings(config)
    chosen = parse_system(system)[1] if system else settings.compressor
    if chosen is None:
        raise ConfigError("the settings have no compressor; accepted: --system NAME")
    registry.check("compressor", chosen.name, chosen.options, ("engine", "embedder"))

    def forget() -> None:
        engine.clear_cache()
        resources.embedder().clear()

    with Console(stderr=True).status("loading") as status:
        engine = load_engine(settings)
        resources = Resources(settings, engine)
        parts = {"engine": resources.engine, "embedder": resources.embedder}
        compressor = registry.build("compressor", chosen.name, chosen.options, parts)
        stage = settings.reranker
        reranker = registry.build("reranker", stage.name, stage.options, parts) if stage else None
        prefill = measuring.Prefill(engine)
        measured = measuring.measure(
            engine,
            compressor,
            reranker,
            prefill,
            [document.text for document in demo_corpus()],
            tokens or DEFAULT_TOKENS,
            ratio=ratio,
            repeats=repeats,
            forget=forget,
            step=(lambda line: status.update(line)) if progress else (lambda _: None),
        )
    readers = measuring.rates(measured, prefill.parameters, stated, sizes)
    rows = [item.row() for item in measured]
    _show(str(chosen), engine.decoder.name, measured, readers)
    if any(row["spread"] > NOISY_SPREAD for row in rows):
        typer.echo("warning: the machine was not quiet, see spread in the JSON record", err=True)
    if json_file:
        record: dict[str, Any] = {
            "evaluation": "breakeven",
            "system": chosen.model_dump(mode="json"),
            "reranker": stage and stage.model_dump(mode="json"),
            "engine": engine.info(),
            "ratio": ratio,
            "repeats": repeats,
            "machine": machine(),
            "lengths": rows,
            "readers": [
                {
                    "name": reader.name,
                    "tokens_per_second": reader.tokens_per_second,
                    "estimated": reader.estimated,
                    "saved_s": [reader.saved(item) for item in measured],
                }
                for reader in readers
            ],
        }
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _rate(text: str) -> tuple[str, float]:
    from rag.errors import InputError, shown

    name, _, value = text.rpartition("=")
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not name or not number > 0:
        raise InputError(f"--rate {shown(text)}; accepted: NAME=TOKENS_PER_SECOND, a number above 0")
    return name, number


def _parameters(text: str) -> float:
    from rag.errors import InputError, shown

    match = _SIZE.fullmatch(text.upper())
    if not match or not float(match[1]):
        raise InputError(f"--size {shown(text)}; accepted: numbers of parameters such as 360M or 1.7B, with commas")
    return float(match[1]) * _UNITS[match[2]]


def _show(label: str, model: str, lengths: list[Length], readers: list[ReaderRate]) -> None:
    from rich.console import Console
    from rich.table import Table

    from rag.eval.breakeven import WAYS

    console = Console() if Console().is_terminal else Console(width=180)
    measured = Table(title=f"{label} on {model}, seconds (share of the prefill saved)", title_justify="left", box=None)
    for title in ("tokens", "kept", "prefill", "saved", *(_WAYS[way] for way in WAYS)):
        measured.add_column(title, justify="right", no_wrap=True)
    for row in (item.row() for item in lengths):
        measured.add_row(
            str(row["tokens"]),
            str(row["kept"]),
            f"{row['prefill_s']:.3f}",
            f"{row['saved_s']:.3f}",
            *(f"{row[f'{way}_s']:.3f} ({_share(row[f'{way}_share'])})" for way in WAYS),
        )
    console.print(measured)
    console.print()
    for way in WAYS:
        table = Table(title=f"prefill seconds saved less compression, {_WAYS[way]}", title_justify="left", box=None)
        for title in ("reader", "tokens/s", *(f"{item.tokens} tokens" for item in lengths)):
            table.add_column(title, justify="left" if title == "reader" else "right", no_wrap=True)
        for reader in readers:
            gains = (reader.saved(item) - getattr(item, way).median for item in lengths)
            name = f"{reader.name} (estimate)" if reader.estimated else reader.name
            table.add_row(name, f"{reader.tokens_per_second:.0f}", *(f"{gain:+.3g}" for gain in gains))
        rates = (f"{item.row()[f'{way}_break_even']:.0f}" for item in lengths)
        table.add_row("pays below", "tokens/s:", *rates, style="bold")
        console.print(table)
        console.print()


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
