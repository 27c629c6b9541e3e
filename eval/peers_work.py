"""What every peer is given, and what comes back of each: its seconds, and the outcome that they were spent on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rag.budget import Budget
from rag.eval.bench_engine import Timing
from rag.models.catalog import DEFAULT_LLM
from rag.types import Document, Query, ScoredDocument

if TYPE_CHECKING:
    from rag.attention.engine import AttentionEngine

TOP = 10
A_FIFTH = Budget(0.2, "ratio")
_CACHE_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class Work:
    """Documents, queries, and for rerankers and compressors the candidates of each query, best first.

    ``budget`` is what compressors may keep of the candidates' tokens, a ratio; ``weights`` the folder of a peer's
    weights.
    """

    documents: tuple[Document, ...]
    queries: tuple[Query, ...]
    candidates: tuple[tuple[ScoredDocument, ...], ...] = ()
    repeats: int = 3
    budget: Budget = A_FIFTH
    weights: str = ""


class Outcome(Protocol):
    """What a peer gave for all queries."""

    def figures(self, ours: Outcome | None) -> dict[str, float | int | None]:
        """What is reported of it beside the seconds; ``ours`` is None for ours, and where ours was not measured."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds to index all documents (None: it has no index) and to answer all queries, and the answers."""

    index: Timing | None
    queries: Timing
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Rankings:
    """The ids of the best `TOP` documents of each query."""

    lists: tuple[tuple[str, ...], ...]

    def figures(self, ours: Outcome | None) -> dict[str, float | int | None]:
        """``top10_overlap``: whether the same work is compared."""
        return {"top10_overlap": self.overlap(ours) if isinstance(ours, Rankings) else None}

    def overlap(self, ours: Rankings) -> float:
        """Mean share of the documents of our lists that are in these too."""
        shares = [len(set(a) & set(b)) / len(a) for a, b in zip(ours.lists, self.lists, strict=True) if a]
        return sum(shares) / len(shares) if shares else 0.0


def our_engine() -> AttentionEngine:
    """The default engine on the CPU, as the peers are, with a cache that holds all candidates."""
    from rag.attention.engine import AttentionEngine

    return AttentionEngine(DEFAULT_LLM, cache_bytes=_CACHE_BYTES)
