"""``rag bench peers`` and ``rag bench retrieval``: stages of ours and other packages', in one run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.errors import ConfigError, InputError

if TYPE_CHECKING:
    from rag.budget import Budget
    from rag.eval.peers_work import Work

Repeats = Annotated[int, typer.Option(min=1, help="Repeats of each measurement.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures here.")]
Progress = Annotated[bool, typer.Option(help="Say what is being measured.")]

Columns = Mapping[str, tuple[str, str]]
_INDEX: Columns = {"index s": ("index_s", ".3g"), "index / ours": ("index_ratio", ".2f")}
_OVERLAP: Columns = {"top 10 shared": ("top10_overlap", ".3f")}
_KEPT: Columns = {"tokens kept": ("kept_share", ".1%"), "within budget": ("within", "d")}
_QUERIES: Columns = {
    "queries s": ("queries_s", ".3g"),
    "queries / ours": ("queries_ratio", ".2f"),
    "range": ("range", "s"),
}
_PEER: Columns = {"peer": ("peer", "s"), "version": ("version", "s")}
_NOISE: Columns = {"spread": ("spread", ".0%"), "noisy": ("noisy", "flag")}
PEER_COLUMNS: Mapping[str, Columns] = {
    "bm25": {**_PEER, **_INDEX, **_QUERIES, **_OVERLAP, **_NOISE},
    "rerank": {**_PEER, **_QUERIES, **_OVERLAP, **_NOISE},
    "compress": {**_PEER, **_QUERIES, **_KEPT, **_NOISE},
}
"""By group, in the order that they are measured and shown in."""
RETRIEVAL_COLUMNS: Columns = {
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
    model_queries: Annotated[
        int, typer.Option(min=1, help="Of them, how many the rerankers and compressors get: each runs a model.")
    ] = 5,
    candidates: Annotated[int, typer.Option(min=1, help="Documents that these get per query: BM25's best.")] = 20,
    keep: Annotated[float, typer.Option(help="Share of the candidates' tokens that compressors may keep.")] = 0.2,
    repeats: Repeats = 3,
    json_file: Json = None,
    progress: Progress = True,
) -> None:
    """Other packages on the same documents and queries: seconds, ratios with their range, shared results, tokens kept.

    BM25, rerankers and compressors are three groups; each peer is compared with ours of its group. Each runs in a
    process of its own, one after the other. A peer that is not installed, or has no weights here, is skipped and named;
    one that fails is told with its error.
    """
    from rich.console import Console

    from rag.budget import Budget
    from rag.eval import bench_peers
    from rag.eval.bench_engine import machine
    from rag.eval.bench_tables import table
    from rag.eval.report_record import versions

    budget = Budget(keep, "ratio")
    names = list(dict.fromkeys(peer or bench_peers.PEERS))
    if unknown := [name for name in names if name not in bench_peers.PEERS]:
        raise ConfigError(f"unknown peer {unknown[0]!r}; known: {', '.join(bench_peers.PEERS)}")
    folders = dict(_weights(text) for text in weights or ())
    name, work, short = _work(collection, split, queries, model_queries, candidates, repeats, budget)
    given = {"bm25": work, "rerank": short, "compress": short}
    rows: dict[str, list[dict[str, Any]]] = {}
    skipped: dict[str, str] = {}
    with Console(stderr=True).status("starting") as status:
        step: Callable[[str], None] = (lambda line: status.update(line)) if progress else (lambda _: None)
        for group in PEER_COLUMNS:
            some = [of for of in names if bench_peers.PEERS[of].group == group]
            measured, why = bench_peers.run_peers(given[group], some, folders, step)
            skipped |= why
            if measured:
                rows[group] = bench_peers.rows(measured)
    lists = f"{len(short.queries)} queries of {name}, {candidates} candidates each"
    titles = {
        "bm25": f"{len(work.queries)} queries of {name}, {len(work.documents)} documents",
        "rerank": lists,
        "compress": f"{lists}, {keep:.0%} of the tokens may be kept",
    }
    console = Console()
    for group, found in rows.items():
        nothing = dict.fromkeys(name for name, _ in PEER_COLUMNS[group].values())
        shown = [{**nothing, **row, "range": _range(row.get("queries_ratio_range"))} for row in found]
        console.print(table(f"\n{group}: {titles[group]}", PEER_COLUMNS[group], shown))
        for row in found:
            if row["error"]:
                console.print(f"{row['peer']}: failed, {row['error']}", markup=False)
    for of, reason in skipped.items():
        console.print(f"{of}: skipped, {reason}", style="dim", markup=False)
    _warn(console, [row for found in rows.values() for row in found])
    record = {
        "benchmark": "peers",
        "collection": name,
        "documents": len(work.documents),
        "queries": {group: len(given[group].queries) for group in rows},
        "candidates": candidates,
        "keep": keep,
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
    collection: Path | None,
    split: str,
    queries: int,
    model_queries: int,
    candidates: int,
    repeats: int,
    budget: Budget,
) -> tuple[str, Work, Work]:
    """The collection's name, what the BM25 peers are given, and what the rerankers and compressors are."""
    from dataclasses import replace

    from rag.demo_data import demo_corpus, demo_queries
    from rag.eval.collections import load_beir
    from rag.eval.peers_work import Work
    from rag.retrievers import BM25
    from rag.types import Query

    if collection is None:
        name, documents = "demo", tuple(demo_corpus())
        asked = tuple(Query(item["text"], str(item["id"])) for item in demo_queries())
    else:
        source = load_beir(collection, split)
        name, documents, asked = source.name, source.documents, source.queries
    work = Work(documents, asked[:queries], repeats=repeats, budget=budget)
    some = work.queries[:model_queries]
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
    if any(row.get("noisy") for row in rows):
        console.print("Marked noisy: repeats differ by more than 15 %. The machine was not quiet; measure again.")


def _write(record: dict[str, Any], path: Path | None) -> None:
    if path is not None:
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
