"""What a stage is: one verb each. Inputs are never mutated; ranked output is sorted, ties stable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rag.types import CompressedDocument, Document, Query, ScoredDocument

if TYPE_CHECKING:
    from rag.attention.types import Attender
    from rag.budget import Budget


@runtime_checkable
class Retriever(Protocol):
    """Finds the documents of one corpus that may answer a query."""

    def index(self, documents: Sequence[Document]) -> Retriever:
        """Return a retriever of the same settings over ``documents`` (``self`` stays as it was)."""
        ...

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[ScoredDocument]]:
        """The ``k`` best documents per query (all of them where the corpus holds fewer)."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Scores all candidates of one query against each other."""

    def rerank(
        self,
        query: Query,
        documents: Sequence[ScoredDocument],
        *,
        attender: Attender | None = None,
    ) -> list[ScoredDocument]:
        """Return every candidate with a new score and rank; ``attender`` shares an attention pass."""
        ...


@runtime_checkable
class Compressor(Protocol):
    """Chooses the sentences of the ranked documents that a reader gets to see."""

    def compress(
        self,
        query: Query,
        documents: Sequence[ScoredDocument],
        budget: Budget,
        *,
        attender: Attender | None = None,
    ) -> list[CompressedDocument]:
        """One `CompressedDocument` per input document, same order; spans may be empty (dropped)."""
        ...


@runtime_checkable
class Ordering(Protocol):
    """Decides in which order the reader model sees the chosen documents."""

    def order(
        self,
        query: Query,
        documents: Sequence[ScoredDocument],
        *,
        attender: Attender | None = None,
    ) -> list[ScoredDocument]:
        """Return the same documents in reading order; scores and ranks are left as they are."""
        ...
