"""Cache precision against ranking: the same candidates, the same heads, keys and values kept in fewer bits."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import torch

from rag.attention.decoder import Decoder
from rag.attention.engine import AttentionEngine
from rag.attention.reading import calibrated_attention
from rag.attention.shared import SharedPass
from rag.attention.store import Precision
from rag.errors import InputError
from rag.eval.collections import Collection, load_beir
from rag.eval.measures import measure
from rag.eval.runs import Run, ranking
from rag.rerankers import HeadReranker
from rag.retrievers import BM25
from rag.types import Query, ScoredDocument

EXACT: Precision = "float32"
ACCEPTED_LOSS = 0.003
"""How much nDCG@10 a smaller cache may cost against float32."""


@dataclass(frozen=True, slots=True)
class PrecisionQuality:
    """One storage type of the block cache.

    ``ndcg`` is that of the default reranker (heads and the retrieval score), ``ndcg_heads`` that of the heads
    alone; ``score_error`` is the largest difference of a document's score to float32's, in the scores' own unit
    (standard deviations within the list), and ``attention_error`` that of a head's calibrated attention to the
    documents, relative (L1). ``token_bytes`` is what a token takes in the cache.
    """

    precision: Precision
    ndcg: float
    ndcg_heads: float
    ndcg_loss: float
    ndcg_heads_loss: float
    score_error: float
    attention_error: float
    token_bytes: float

    def row(self) -> dict[str, Any]:
        """Flat figures for a table or JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Read:
    """What one engine gave for one query."""

    fused: list[ScoredDocument]
    alone: list[ScoredDocument]
    attention: torch.Tensor


Candidates = dict[str, Sequence[ScoredDocument]]
"""What a retriever found, by query id."""


def labelled(folder: Path, split: str, queries: str | None, count: int, k: int) -> tuple[Collection, Candidates]:
    """A collection cut down to ``count`` queries (drawn with seed 1) with something relevant among their ``k`` best
    of BM25, and those candidates by query id.

    Raises:
        InputError: no query has anything relevant among its candidates.
    """
    source = load_beir(folder, split, queries=queries)
    retriever = BM25().index(source.documents)
    order = sorted(source.queries, key=lambda query: query.id)
    random.Random(1).shuffle(order)
    chosen: list[Query] = []
    candidates: Candidates = {}
    for query in order:
        (found,) = retriever.retrieve([query], k)
        if any(source.qrels[query.id].get(item.document.id, 0) > 0 for item in found):
            chosen.append(query)
            candidates[query.id] = found
        if len(chosen) == count:
            break
    if not chosen:
        raise InputError(f"{folder}: no query of split {split!r} has anything relevant among its {k} best of BM25")
    qrels = {query.id: source.qrels[query.id] for query in chosen}
    return Collection(source.name, source.documents, tuple(chosen), qrels), candidates


def precisions(
    model: str | Decoder,
    collection: Collection,
    candidates: Candidates,
    *,
    cache_bytes: int = 4 << 30,
    step: Callable[[str], None] = lambda _: None,
) -> list[PrecisionQuality]:
    """Rerank the same candidates from caches of every precision, float32 first.

    Documents are read once, in float32, and the other caches filled with copies of those blocks: all that differs
    is how they are kept. What counts is the difference between precisions, so the queries may be ones that the heads
    were found on.
    """
    first = AttentionEngine(model, cache_bytes=cache_bytes, cache_precision=EXACT)
    engines: dict[Precision, AttentionEngine] = {EXACT: first}
    for name in get_args(Precision):
        if name != EXACT:
            engines[name] = AttentionEngine(first.decoder, cache_bytes=cache_bytes, cache_precision=name)
    read: dict[Precision, dict[str, _Read]] = {name: {} for name in engines}
    token_bytes = dict.fromkeys(engines, 0.0)
    for number, query in enumerate(collection.queries, start=1):
        step(f"cache precision: query {number} of {len(collection.queries)}")
        first.clear_cache()
        for name, engine in engines.items():
            if engine is not first:
                engine.clear_cache()
                engine.take_blocks(first)
            read[name][query.id], tokens = _read(engine, query, candidates[query.id])
            token_bytes[name] = engine.cache_stats().bytes / tokens
    exact = read[EXACT]
    ndcg = {name: _ndcg(collection, {i: r.fused for i, r in of.items()}) for name, of in read.items()}
    alone = {name: _ndcg(collection, {i: r.alone for i, r in of.items()}) for name, of in read.items()}
    return [
        PrecisionQuality(
            name,
            ndcg[name],
            alone[name],
            ndcg[EXACT] - ndcg[name],
            alone[EXACT] - alone[name],
            max(_score_error(of[i].alone, exact[i].alone) for i in exact),
            max(_relative_error(of[i].attention, exact[i].attention) for i in exact),
            token_bytes[name],
        )
        for name, of in read.items()
    ]


def _read(engine: AttentionEngine, query: Query, candidates: Sequence[ScoredDocument]) -> tuple[_Read, int]:
    fused, alone = HeadReranker(engine), HeadReranker(engine, weight=None)
    attender = SharedPass(engine, query)
    answer = attender.attend(query, [item.document for item in candidates], fused.spec)
    return (
        _Read(
            list(fused.rerank(query, candidates, attender=attender)),
            list(alone.rerank(query, candidates, attender=attender)),
            calibrated_attention(answer),
        ),
        answer.token_ids.numel(),
    )


def _ndcg(collection: Collection, ranked: dict[str, list[ScoredDocument]]) -> float:
    run: Run = {name: ranking(found) for name, found in ranked.items()}
    return measure(collection.qrels, run, ["nDCG@10"]).aggregate["nDCG@10"]


def _score_error(found: Sequence[ScoredDocument], exact: Sequence[ScoredDocument]) -> float:
    scores = {item.document.id: item.score for item in found}
    return max(abs(scores[item.document.id] - item.score) for item in exact)


def _relative_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float(((found - exact).abs().sum(-1) / exact.abs().sum(-1)).max())
