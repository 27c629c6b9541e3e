"""Peers in the same run: other packages on the same documents and queries, each in a process of its own.

Ratios are of medians: the peer's seconds over ours, with the range that the repeats allow. What a peer gave for its
seconds is reported beside them (see `rag.eval.peers_work.Outcome`): how many of our ten best a BM25 or a reranker
shares says whether the same work is compared, as do the tokens that a compressor keeps. A peer that fails is a row with
its error, and the others go on.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from rag.eval import peers_bm25, peers_compress, peers_rerank
from rag.eval.bench_engine import Timing
from rag.eval.peers_work import Run, Work

_log = logging.getLogger(__name__)

_OURS = "rag-context"
_EXTRA = f"{_OURS}[llmlingua]"


@dataclass(frozen=True, slots=True)
class Peer:
    """How a peer is measured, and what it needs: an installed package, and perhaps a folder of weights.

    ``install`` is what pip is asked for where that is not the package's name; ``ours`` what the others of a group are
    compared with.
    """

    group: str
    package: str
    measure: Callable[[Work], Run]
    ours: bool = False
    weights: bool = False
    install: str = ""

    def missing(self, name: str, weights: Path | None = None) -> str:
        """Why it cannot be measured here under this name; empty where it can."""
        if _version(self.package) is None:
            return f"not installed: pip install {self.install or self.package}"
        if self.weights and weights is None:
            return f"no weights given: --weights {name}=FOLDER"
        if weights is not None and not weights.is_dir():
            return f"no folder {weights}"
        return ""


@dataclass(frozen=True, slots=True)
class Measured:
    """One peer by its name in `PEERS`, the version of its package, and what was measured; None with the ``error``."""

    peer: str
    version: str | None
    run: Run | None
    error: str | None = None


def run_peers(
    work: Work, names: Sequence[str], weights: Mapping[str, Path], step: Callable[[str], None] = lambda _: None
) -> tuple[list[Measured], dict[str, str]]:
    """Measure the peers called ``names``, one at a time; the second value says why any of them was skipped.

    What a peer raises, and the death of its process, is in what is returned, and its stack in the log.
    """
    spawn = multiprocessing.get_context("spawn")
    measured: list[Measured] = []
    skipped: dict[str, str] = {}
    for name in names:
        if reason := PEERS[name].missing(name, weights.get(name)):
            skipped[name] = reason
            continue
        step(name)
        given, version = replace(work, weights=str(weights.get(name, ""))), _version(PEERS[name].package)
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            try:
                measured.append(Measured(name, version, pool.submit(_measure, name, given).result()))
            except (Exception, SystemExit) as error:
                _log.warning("peer %s failed %s", name, error.__cause__ or error)  # the cause is its own stack
                measured.append(Measured(name, version, None, f"{type(error).__name__}: {error}"))
    return measured, skipped


def rows(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """Flat figures of the peers of one group: medians, ratios to ours with their range, outcome, noise.

    Of a peer that failed: its name, version and ``error``, which is None for the others.
    """
    ours = next((item.run for item in measured if PEERS[item.peer].ours), None)
    return [_row(item, ours) for item in measured]


def _row(item: Measured, ours: Run | None) -> dict[str, Any]:
    named = {"peer": item.peer, "version": item.version, "error": item.error}
    run, against = item.run, None if ours is item.run else ours
    if run is None:
        return named
    timings = [timing for timing in (run.index, run.queries) if timing]
    return {
        **named,
        "index_s": run.index.median if run.index else None,
        "queries_s": run.queries.median,
        "index_ratio": run.index.median / against.index.median if run.index and against and against.index else None,
        "queries_ratio": run.queries.median / against.queries.median if against else None,
        "queries_ratio_range": _ratio_range(run.queries, against.queries) if against else None,
        **run.outcome.figures(against.outcome if against else None),
        "seconds": {
            "index": list(run.index.seconds) if run.index else None,
            "queries": list(run.queries.seconds),
        },
        "spread": max(timing.spread for timing in timings),
        "noisy": any(timing.noisy for timing in timings),
    }


def _ratio_range(theirs: Timing, ours: Timing) -> list[float]:
    return [min(theirs.seconds) / max(ours.seconds), max(theirs.seconds) / min(ours.seconds)]


def _measure(name: str, work: Work) -> Run:
    """Runs in a process of its own."""
    return PEERS[name].measure(work)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


PEERS: Mapping[str, Peer] = {
    "rag bm25": Peer("bm25", _OURS, peers_bm25.our_bm25, ours=True),
    "bm25s": Peer("bm25", "bm25s", peers_bm25.bm25s),
    "bm25s, our terms": Peer("bm25", "bm25s", partial(peers_bm25.bm25s, same_terms=True)),
    "rank-bm25": Peer("bm25", "rank-bm25", peers_bm25.rank_bm25),
    "rag probe, warm": Peer("rerank", _OURS, partial(peers_rerank.probe, warm=True), ours=True),
    "rag probe, cold": Peer("rerank", _OURS, partial(peers_rerank.probe, warm=False)),
    "cross-encoder": Peer("rerank", "sentence-transformers", peers_rerank.cross_encoder, weights=True),
    "flashrank": Peer("rerank", "flashrank", peers_rerank.flashrank, weights=True),
    "rag sentinel, warm": Peer("compress", _OURS, partial(peers_compress.sentinel, warm=True), ours=True),
    "rag sentinel, cold": Peer("compress", _OURS, partial(peers_compress.sentinel, warm=False)),
    "llmlingua": Peer("compress", "llmlingua", partial(peers_compress.llmlingua, method="llmlingua"), install=_EXTRA),
    "longllmlingua": Peer(
        "compress", "llmlingua", partial(peers_compress.llmlingua, method="longllmlingua"), install=_EXTRA
    ),
}
"""By the name that the command line and the record use, group after group."""
