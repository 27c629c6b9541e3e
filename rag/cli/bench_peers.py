"""``rag bench peers`` and ``rag bench retrieval``: retrievers and rerankers, ours and other packages', in one run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rag.errors import ConfigError, InputError

Repeats = Annotated[int, typer.Option(min=1, help="Repeats of each measurement.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures here.")]
Progress = Annotated[bool, typer.Option(help="Say what is being measured.")]

PEER_COLUMNS: Mapping[str, tuple[str, str]] = {
    "peer": ("peer", "s"),
    "version": ("version", "s"),
    "index s": ("index_s", ".3g"),
    "queries s": ("queries_s", ".3g"),
    "index / ours": ("index_ratio", ".2f"),
    "queries / ours": ("queries_ratio", ".2f"),
    "range": ("range", "s"),
    "top 10 shared": ("top10_overlap", ".3f"),
    "spread": ("spread", ".0%"),
    "noisy": ("noisy", "flag"),
}
RETRIEVAL_COLUMNS: Mapping[str, tuple[str, str]] = {
    "retriever": ("retriever", "s"),
    "documents": ("documents", ",d"),
    "index s": ("index_s", ".3g"),
    "documents/s": ("documents_per_s", ",.0f"),
    "query s": ("query_s", ".3g"),
    "index MiB": ("index_mib", ".1f"),
    "spread": ("spread", ".0%"),
    "noisy": ("noisy", "flag"),
}


def peers(
    collection: Annotated[
        Path | None, typer.Argument(help="BEIR folder or zip. Default: the demo's 60 passages.", show_default=False)
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option("--peer", help="Only these, by name, repeatable. Default: all there are.")
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(help="cross-encoder=FOLDER or flashrank=FOLDER: where a peer's weights are.", show_default=False),
    ] = None,
    split: Annotated[str, typer.Option(help="Which qrels of the collection.")] = "test",
    queries: Annotated[int, typer.Option(min=1, help="Only the first queries.")] = 50,
    rerank: Annotated[int, typer.Option(min=1, help="Of them, how many the rerankers get.")] = 5,
    candidates: Annotated[int, typer.Option(min=1, help="Documents reranked per query: BM25's best.")] = 20,
    repeats: Repeats = 3,
    json_file: Json = None,
    progress: Progress = True,
) -> None:
    """Other packages on the same documents and queries: seconds, ratios with their range, shared results.

    Each runs in a process of its own, one after the other. A peer that is not installed, or has no weights here, is
    skipped and named.
    """
    from rich.console import Console

    from rag.eval import bench_peers
    from rag.eval.bench_engine import machine
    from rag.eval.bench_tables import table
    from rag.eval.report_record import versions

    names = list(dict.fromkeys(peer or bench_peers.PEERS))
    if unknown := [name for name in names if name not in bench_peers.PEERS]:
        raise ConfigError(f"unknown peer {unknown[0]!r}; known: {', '.join(bench_peers.PEERS)}")
    folders = dict(_weights(text) for text in weights or ())
    name, work, short = _work(collection, split, queries, rerank, candidates, repeats)
    with Console(stderr=True).status("starting") as status:
        step: Callable[[str], None] = (lambda line: status.update(line)) if progress else (lambda _: None)
        groups = {bench_peers.PEERS[of].group for of in names}
        measured: list[Any] = []
        skipped: dict[str, Any] = {}
        for group in sorted(groups):
            some = [of for of in names if bench_peers.PEERS[of].group == group]
            done, why = bench_peers.run_peers(short if group == "rerank" else work, some, folders, step)
            measured += done
            skipped |= why
    rows = bench_peers.rows(measured)
    console = Console()
    for group, given in (("bm25", work), ("rerank", short)):
        chosen = [{**row, "range": _range(row["queries_ratio_range"])} for row in rows if row["group"] == group]
        if chosen:
            what = f"{len(given.queries)} queries of {name}, {len(given.documents)} documents"
            console.print(table(f"\n{group}: {what}", PEER_COLUMNS, chosen))
    for of, why in skipped.items():
        console.print(f"{of}: skipped, {why}", style="dim", markup=False)
    _warn(console, rows)
    record = {
        "benchmark": "peers",
        "collection": name,
        "documents": len(work.documents),
        "queries": {"bm25": len(work.queries), "rerank": len(short.queries)},
        "candidates": candidates,
        "repeats": repeats,
        "machine": machine(),
        "versions": versions(),
        "rows": rows,
        "skipped": skipped,
    }
    _write(record, json_file)


def retrieval(
    retriever: Annotated[
        list[str] | None, typer.Option("--retriever", help="By name, repeatable. Default: bm25, dense, fused.")
    ] = None,
    counts: Annotated[str, typer.Option(help="Numbers of documents, with commas.")] = "1000,5000",
    words: Annotated[int, typer.Option(min=5, help="Words per document, about.")] = 80,
    repeats: Repeats = 3,
    json_file: Json = None,
    progress: Progress = True,
) -> None:
    """Our retrievers over growing corpora: seconds to index and per query, memory; each in its own process."""
    from rich.console import Console

    from rag import registry
    from rag.eval import bench_retrieval
    from rag.eval.bench_engine import machine
    from rag.eval.bench_tables import table
    from rag.eval.report_record import versions

    known = registry.names("retriever")
    names = list(dict.fromkeys(retriever or ("bm25", "dense", "fused")))
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"unknown retriever {unknown[0]!r}; known: {', '.join(known)}")
    numbers = _numbers(counts)
    with Console(stderr=True).status("starting") as status:
        step: Callable[[str], None] = (lambda line: status.update(line)) if progress else (lambda _: None)
        measured = bench_retrieval.retrieval(names, numbers, words=words, repeats=repeats, step=step)
    rows = [item.row() for item in measured]
    console = Console()
    console.print(table(f"about {words} words per document", RETRIEVAL_COLUMNS, rows))
    _warn(console, rows)
    record = {
        "benchmark": "retrieval",
        "words": words,
        "repeats": repeats,
        "machine": machine(),
        "versions": versions(),
        "rows": rows,
    }
    _write(record, json_file)


def _work(
    collection: Path | None, split: str, queries: int, rerank: int, candidates: int, repeats: int
) -> tuple[str, Any, Any]:
    """The collection's name, and what the BM25 peers and the rerankers are given."""
    from dataclasses import replace

    from rag.demo_data import demo_corpus, demo_queries
    from rag.eval.bench_peers import Work
    from rag.eval.collections import load_beir
    from rag.retrievers import BM25
    from rag.types import Query

    if collection is None:
        name, documents = "demo", tuple(demo_corpus())
        asked = tuple(Query(item["text"], str(item["id"])) for item in demo_queries())
    else:
        source = load_beir(collection, split)
        name, documents, asked = source.name, source.documents, source.queries
    work = Work(documents, asked[:queries], repeats=repeats)
    some = asked[:rerank]
    lists = BM25().index(documents).retrieve(some, candidates)
    return name, work, replace(work, queries=some, candidates=tuple(tuple(items) for items in lists))


def _weights(text: str) -> tuple[str, Path]:
    from rag.eval.bench_peers import PEERS

    name, equals, folder = text.partition("=")
    accepted = [of for of, peer in PEERS.items() if peer.weights]
    if not (equals and folder) or name not in accepted:
        raise InputError(f"--weights {text!r}; accepted: {' or '.join(f'{of}=FOLDER' for of in accepted)}")
    return name, Path(folder)


def _numbers(text: str) -> list[int]:
    try:
        numbers = sorted({int(part) for part in text.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 2:
        raise InputError(f"--counts {text!r}; accepted: whole numbers of 2 or more, with commas")
    return numbers


def _range(of: list[float] | None) -> str | None:
    return f"{of[0]:.2f} to {of[1]:.2f}" if of else None


def _warn(console: Any, rows: list[dict[str, Any]]) -> None:
    if any(row["noisy"] for row in rows):
        console.print("Marked noisy: repeats differ by more than 15 %. The machine was not quiet; measure again.")


def _write(record: dict[str, Any], path: Path | None) -> None:
    if path is not None:
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
