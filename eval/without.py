"""Retrieval as it would be if the corpus lacked what answers: lists for which the right answer is to abstain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rag.retrievers import Fused
from rag.stages import Retriever
from rag.types import Document, Query, ScoredDocument


class Without:
    """A retriever that does not find some documents of each query; those behind them move up.

    Scores are of the whole corpus: its statistics are not those that it would have without these documents.

    Args:
        retriever: finds the documents.
        removed: query id to the ids of what is not found.
    """

    def __init__(self, retriever: Retriever, removed: Mapping[str, frozenset[str]]) -> None:
        self._retriever = retriever
        self._removed = removed
        self.no_evidence: float = getattr(retriever, "no_evidence", float("-inf"))

    def index(self, documents: Sequence[Document]) -> Without:
        """See `rag.stages.Retriever`."""
        return Without(self._retriever.index(documents), self._removed)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[ScoredDocument]]:
        """See `rag.stages.Retriever`."""
        removed = [self._removed.get(query.id, frozenset()) for query in queries]
        lists = self._retriever.retrieve(queries, k + max(map(len, removed), default=0))
        return [
            [
                replace(item, rank=rank)
                for rank, item in enumerate((item for item in found if item.document.id not in away), start=1)
            ][:k]
            for found, away in zip(lists, removed, strict=True)
        ]


def without(retriever: Retriever, removed: Mapping[str, frozenset[str]]) -> Retriever:
    """The retriever that does not find the removed documents; of a fused one, no member finds them."""
    if not isinstance(retriever, Fused):
        return Without(retriever, removed)
    members: dict[str, Retriever] = {name: without(member, removed) for name, member in retriever.members.items()}
    return Fused.of(members, retriever.depth, retriever.k0, retriever.method)
