"""Peers in the same run: other packages on the same documents and queries, each in a process of its own.

Ratios are of medians: the peer's seconds over ours, with the range that the repeats allow. BM25 peers are asked for
their best ten; how many of them are ours too says whether the same work is compared.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from rag.eval.bench_engine import Timing, timed
from rag.types import Document, Query, ScoredDocument

TOP = 10
K1, B = 0.9, 0.4
Rankings = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What every peer is given: documents, queries, and for rerankers the candidates of each query."""

    documents: tuple[Document, ...]
    queries: tuple[Query, ...]
    candidates: tuple[tuple[ScoredDocument, ...], ...] = ()
    repeats: int = 3
    weights: str = ""
    """Folder of a peer's weights."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One peer: seconds to index all documents (None: it has no index) and to answer all queries, and its answers."""

    peer: str
    group: str
    version: str
    index: Timing | None
    queries: Timing
    rankings: Rankings


@dataclass(frozen=True, slots=True)
class Peer:
    """How a peer is measured, and what it needs: a package, and perhaps a folder of weights."""

    group: str
    package: str
    measure: Callable[[Work], tuple[Timing | None, Timing, Rankings]]
    ours: bool = False
    weights: bool = False


def run_peers(
    work: Work, names: Sequence[str], weights: Mapping[str, Path], step: Callable[[str], None] = lambda _: None
) -> tuple[list[Measured], dict[str, str]]:
    """Measure the peers called ``names``, one at a time; the second value says why any of them was skipped."""
    from dataclasses import replace

    spawn = multiprocessing.get_context("spawn")
    measured: list[Measured] = []
    skipped: dict[str, str] = {}
    for name in names:
        if reason := _missing(name, weights):
            skipped[name] = reason
            continue
        step(name)
        given = replace(work, weights=str(weights.get(name, "")))
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            measured.append(pool.submit(_measure, name, given).result())
    return measured, skipped


def rows(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """Flat figures: medians, ratios to ours of the same group with their range, overlap of the best ten, noise."""
    ours = {item.group: item for item in measured if PEERS[item.peer].ours}
    return [_row(item, ours.get(item.group)) for item in measured]


def overlap(ours: Rankings, theirs: Rankings) -> float:
    """Mean share of the documents of our lists that are in theirs too."""
    shares = [len(set(a) & set(b)) / len(a) for a, b in zip(ours, theirs, strict=True) if a]
    return sum(shares) / len(shares) if shares else 0.0


def _row(item: Measured, ours: Measured | None) -> dict[str, Any]:
    timings = [timing for timing in (item.index, item.queries) if timing]
    row: dict[str, Any] = {
        "peer": item.peer,
        "group": item.group,
        "version": item.version,
        "index_s": item.index.median if item.index else None,
        "queries_s": item.queries.median,
        "seconds": {
            "index": list(item.index.seconds) if item.index else None,
            "queries": list(item.queries.seconds),
        },
        "spread": max(timing.spread for timing in timings),
        "noisy": any(timing.noisy for timing in timings),
        "index_ratio": None,
        "queries_ratio": None,
        "queries_ratio_range": None,
        "top10_overlap": None,
    }
    if ours is None or ours is item:
        return row
    if item.index and ours.index:
        row["index_ratio"] = item.index.median / ours.index.median
    theirs, own = item.queries, ours.queries
    row["queries_ratio"] = theirs.median / own.median
    row["queries_ratio_range"] = [
        min(theirs.seconds) / max(own.seconds),
        max(theirs.seconds) / min(own.seconds),
    ]
    row["top10_overlap"] = overlap(ours.rankings, item.rankings)
    return row


def _missing(name: str, weights: Mapping[str, Path]) -> str:
    """Why a peer cannot be measured here; empty where it can."""
    peer = PEERS[name]
    if importlib.util.find_spec(peer.package.replace("-", "_")) is None:
        return f"not installed: pip install {peer.package}"
    if peer.weights and name not in weights:
        return f"no weights given: --weights {name}=FOLDER"
    if peer.weights and not weights[name].is_dir():
        return f"no folder {weights[name]}"
    return ""


def _measure(name: str, work: Work) -> Measured:
    """Runs in a process of its own."""
    peer = PEERS[name]
    index, queries, rankings = peer.measure(work)
    try:
        version = metadata.version(peer.package)
    except metadata.PackageNotFoundError:
        version = metadata.version("rag-context")
    return Measured(name, peer.group, version, index, queries, rankings)


def _our_bm25(work: Work) -> tuple[Timing | None, Timing, Rankings]:
    from rag.retrievers import BM25 as Ours

    ours = Ours(k1=K1, b=B)
    indexed = ours.index(work.documents)

    def search() -> list[list[ScoredDocument]]:
        return indexed.retrieve(work.queries, TOP)

    found = tuple(tuple(item.document.id for item in items) for items in search())
    return timed(partial(ours.index, work.documents), work.repeats), timed(search, work.repeats), found


def _bm25s(work: Work, same_terms: bool = False) -> tuple[Timing | None, Timing, Rankings]:
    """With its own tokeniser (English stop words, Snowball stems), or given our terms."""
    import bm25s
    import Stemmer

    ours = _our_terms() if same_terms else None
    stemmer = Stemmer.Stemmer("english")

    def terms(texts: Sequence[str]) -> Any:
        if ours is not None:
            return [ours(text) for text in texts]
        return bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, show_progress=False)

    def build() -> Any:
        made = bm25s.BM25(method="lucene", k1=K1, b=B)
        made.index(terms(_texts(work)), show_progress=False)
        return made

    index, asked = build(), [query.text for query in work.queries]

    def search() -> Any:
        return index.retrieve(terms(asked), k=min(TOP, len(work.documents)), show_progress=False)[0]

    found = tuple(tuple(work.documents[int(place)].id for place in row) for row in search())
    return timed(build, work.repeats), timed(search, work.repeats), found


def _rank_bm25(work: Work) -> tuple[Timing | None, Timing, Rankings]:
    """It has no tokeniser: it is given our terms."""
    from rank_bm25 import BM25Okapi

    terms = _our_terms()

    def build() -> Any:
        return BM25Okapi([terms(text) for text in _texts(work)], k1=K1, b=B)

    index = build()
    names = [document.id for document in work.documents]

    def search() -> list[list[str]]:
        return [index.get_top_n(terms(query.text), names, n=TOP) for query in work.queries]

    return timed(build, work.repeats), timed(search, work.repeats), tuple(map(tuple, search()))


def _our_heads(work: Work, warm: bool) -> tuple[Timing | None, Timing, Rankings]:
    from rag import registry
    from rag.config import Settings
    from rag.resources import Resources, load_engine

    settings = Settings()
    engine = load_engine(settings)
    resources = Resources(settings, engine)
    reranker = registry.build("reranker", "heads", {}, {"engine": resources.engine, "embedder": resources.embedder})

    def rerank() -> list[list[ScoredDocument]]:
        pairs = zip(work.queries, work.candidates, strict=True)
        return [reranker.rerank(query, candidates) for query, candidates in pairs]

    found = tuple(tuple(item.document.id for item in items[:TOP]) for items in rerank())
    return None, timed(rerank, work.repeats, (lambda: None) if warm else engine.clear_cache), found


def _cross_encoder(work: Work) -> tuple[Timing | None, Timing, Rankings]:
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(work.weights, device="cpu")

    def rerank() -> list[list[str]]:
        found = []
        for query, candidates in zip(work.queries, work.candidates, strict=True):
            scores = model.predict([(query.text, _text(item.document)) for item in candidates], show_progress_bar=False)
            order = sorted(range(len(candidates)), key=lambda i: -float(scores[i]))
            found.append([candidates[i].document.id for i in order[:TOP]])
        return found

    rankings = tuple(map(tuple, rerank()))
    return None, timed(rerank, work.repeats), rankings


def _flashrank(work: Work) -> tuple[Timing | None, Timing, Rankings]:
    """Weights: a folder named as FlashRank names its model, so that nothing is downloaded."""
    from flashrank import Ranker, RerankRequest

    folder = Path(work.weights)
    model = Ranker(model_name=folder.name, cache_dir=str(folder.parent))

    def rerank() -> list[list[str]]:
        found = []
        for query, candidates in zip(work.queries, work.candidates, strict=True):
            passages = [{"id": item.document.id, "text": _text(item.document)} for item in candidates]
            ranked = model.rerank(RerankRequest(query=query.text, passages=passages))
            found.append([item["id"] for item in ranked[:TOP]])
        return found

    rankings = tuple(map(tuple, rerank()))
    return None, timed(rerank, work.repeats), rankings


def _our_terms() -> Callable[[str], list[str]]:
    from rag.words import Tokeniser

    return Tokeniser()


def _text(document: Document) -> str:
    from rag.checks import full_text

    return full_text(document)


def _texts(work: Work) -> list[str]:
    return [_text(document) for document in work.documents]


PEERS: Mapping[str, Peer] = {
    "rag bm25": Peer("bm25", "bm25s", _our_bm25, ours=True),
    "bm25s": Peer("bm25", "bm25s", _bm25s),
    "bm25s, our terms": Peer("bm25", "bm25s", partial(_bm25s, same_terms=True)),
    "rank-bm25": Peer("bm25", "rank-bm25", _rank_bm25),
    "rag heads, warm": Peer("rerank", "transformers", partial(_our_heads, warm=True), ours=True),
    "rag heads, cold": Peer("rerank", "transformers", partial(_our_heads, warm=False)),
    "cross-encoder": Peer("rerank", "sentence-transformers", _cross_encoder, weights=True),
    "flashrank": Peer("rerank", "flashrank", _flashrank, weights=True),
}
"""By the name that the command line and the record use. ``ours`` is what the others of a group are compared with."""
