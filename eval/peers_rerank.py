"""Rerankers, ours and other packages', over the same candidates of each query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rag.checks import full_text
from rag.eval.bench_engine import timed
from rag.eval.peers_work import TOP, Rankings, Run, Work, our_engine
from rag.types import Query, ScoredDocument


def probe(work: Work, warm: bool) -> Run:
    """Our default reranker; ``warm``: an earlier query has read the candidates."""
    from rag.rerankers.probe import ProbeReranker

    engine = our_engine()
    reranker = ProbeReranker(engine)

    def rerank(query: Query, candidates: Sequence[ScoredDocument]) -> list[str]:
        return [item.document.id for item in reranker.rerank(query, candidates)]

    return _run(work, rerank, (lambda: None) if warm else engine.clear_cache)


def cross_encoder(work: Work) -> Run:
    """A cross-encoder of sentence-transformers, from the folder ``work.weights``."""
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(work.weights, device="cpu")

    def rerank(query: Query, candidates: Sequence[ScoredDocument]) -> list[str]:
        scores = model.predict([(query.text, full_text(item.document)) for item in candidates], show_progress_bar=False)
        order = sorted(range(len(candidates)), key=lambda i: -float(scores[i]))
        return [candidates[i].document.id for i in order]

    return _run(work, rerank)


def flashrank(work: Work) -> Run:
    """Weights: a folder named as FlashRank names its model, so that nothing is downloaded."""
    from flashrank import Ranker, RerankRequest

    folder = Path(work.weights)
    model = Ranker(model_name=folder.name, cache_dir=str(folder.parent))

    def rerank(query: Query, candidates: Sequence[ScoredDocument]) -> list[str]:
        passages = [{"id": item.document.id, "text": full_text(item.document)} for item in candidates]
        return [item["id"] for item in model.rerank(RerankRequest(query=query.text, passages=passages))]

    return _run(work, rerank)


def _run(
    work: Work,
    rerank: Callable[[Query, Sequence[ScoredDocument]], list[str]],
    before: Callable[[], None] = lambda: None,
) -> Run:
    """``rerank`` gives ids, best first; ``before`` goes before each repeat and is not timed."""

    def all_queries() -> list[list[str]]:
        return [rerank(query, candidates) for query, candidates in zip(work.queries, work.candidates, strict=True)]

    found = Rankings(tuple(tuple(ids[:TOP]) for ids in all_queries()))
    return Run(None, timed(all_queries, work.repeats, before), found)
