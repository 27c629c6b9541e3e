"""Compressors, ours and LLMLingua's, over the same candidates, model and budget.

Ours keeps sentences and never goes over the budget. LLMLingua drops tokens and is asked once per query, as its users
ask it: how much it kept of what was given, and how often that was within the budget, is part of the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag.budget import Budget
from rag.compressors.tokens import named_tokenizer
from rag.eval.bench_engine import timed
from rag.eval.peers_work import Outcome, Run, Work, our_engine
from rag.models.catalog import DEFAULT_LLM
from rag.types import Query, ScoredDocument

if TYPE_CHECKING:
    from rag.compressors.llmlingua import Method


@dataclass(frozen=True, slots=True)
class Kept:
    """Tokens of one query's candidates: given, allowed by the budget, kept."""

    given: int
    limit: int
    kept: int


@dataclass(frozen=True, slots=True)
class Compressions:
    """What was kept for each query."""

    of: tuple[Kept, ...]

    def figures(self, ours: Outcome | None) -> dict[str, float | int | None]:
        """``kept_share`` of the tokens, mean over the queries, and for how many the budget was kept (``within``)."""
        del ours
        shares = [item.kept / item.given for item in self.of]
        return {
            "kept_share": sum(shares) / len(shares) if shares else None,
            "within": sum(item.kept <= item.limit for item in self.of),
        }


def sentinel(work: Work, warm: bool) -> Run:
    """Our default compressor, alone: its attention pass is in the seconds; ``warm``: an earlier query has read the
    candidates.

    In a pipeline it costs less, for there it reads the pass that the reranker has paid for.
    """
    from rag.compressors.sentinel import SentinelCompressor
    from rag.kept_embeddings import KeptEmbeddings
    from rag.models.embedder import Embedder

    engine = our_engine()
    embedder = KeptEmbeddings(Embedder())
    compressor = SentinelCompressor(engine, embedder)

    def forget() -> None:
        engine.clear_cache()
        embedder.clear()

    def compress(query: Query, candidates: Sequence[ScoredDocument], budget: Budget) -> list[str]:
        return [item.text for item in compressor.compress(query, candidates, budget)]

    return _run(work, compress, (lambda: None) if warm else forget)


def llmlingua(work: Work, method: Method) -> Run:
    """The package LLMLingua over our default model."""
    from rag.compressors.llmlingua import LlmLingua

    compressor = LlmLingua(DEFAULT_LLM, method=method, attempts=1)

    def compress(query: Query, candidates: Sequence[ScoredDocument], budget: Budget) -> list[str]:
        return [compressor.compress(query, [item.document for item in candidates], budget).text]

    return _run(work, compress)


def _run(
    work: Work,
    compress: Callable[[Query, Sequence[ScoredDocument], Budget], list[str]],
    before: Callable[[], None] = lambda: None,
) -> Run:
    """``compress`` gives the texts that it keeps; ``before`` goes before each repeat and is not timed.

    Every peer gets the budget in tokens of one tokenizer, and what it keeps is counted in the same.
    """
    count = named_tokenizer(DEFAULT_LLM).count_tokens
    given = [sum(count([item.document.text for item in of])) for of in work.candidates]
    limits = [work.budget.limit(tokens) for tokens in given]

    def all_queries() -> list[list[str]]:
        requests = zip(work.queries, work.candidates, limits, strict=True)
        return [compress(query, candidates, Budget(limit)) for query, candidates, limit in requests]

    kept = [sum(count(texts)) for texts in all_queries()]
    outcome = Compressions(tuple(map(Kept, given, limits, kept)))
    return Run(None, timed(all_queries, work.repeats, before), outcome)
