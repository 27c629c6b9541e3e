"""What all retrievers over a corpus in memory share: checks, copying, and the shape of the answer."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

from rag.errors import InputError
from rag.types import Document, Query, ScoredDocument, check_unique_ids


class Hit(NamedTuple):
    """A document found: its position in the corpus, its score, and what to note in its trace."""

    position: int
    score: float
    trace: dict[str, Any]


class CorpusRetriever(ABC):
    """A retriever over documents in memory. Subclasses say how to build an index and how to search it.

    An indexed retriever is never changed again, so any number of threads may call `retrieve` on it.
    """

    name: ClassVar[str]
    """The name it is registered under, and the key of its score in a document's trace."""

    no_evidence: ClassVar[float] = float("-inf")
    """A score at or below this says that nothing of the query was found in the document."""

    _documents: tuple[Document, ...] | None = None

    def index(self, documents: Sequence[Document]) -> Self:
        """A retriever of the same settings over ``documents``; ``self`` stays as it was.

        Raises:
            DuplicateIdsError: two documents carry the same id.
        """
        documents = tuple(documents)
        check_unique_ids(documents)
        indexed = copy.copy(self)
        indexed._documents = documents
        indexed._build(documents)
        return indexed

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[ScoredDocument]]:
        """The ``k`` best documents of each query, all of them where the corpus holds fewer.

        Documents without any evidence are part of the answer too (ranked last, in corpus order), and those
        without text come after them. Equal scores keep corpus order.

        Raises:
            InputError: ``k`` is below 1, or no corpus was indexed.
        """
        if k < 1:
            raise InputError(f"k must be at least 1, given {k}")
        documents = self.documents
        if not documents or not queries:
            return [[] for _ in queries]
        return [
            [
                ScoredDocument(documents[hit.position], hit.score, rank, hit.trace)
                for rank, hit in enumerate(hits, start=1)
            ]
            for hits in self._search(queries, min(k, len(documents)))
        ]

    @property
    def documents(self) -> tuple[Document, ...]:
        """The corpus, in the order it was given. Raises `InputError` where none was indexed."""
        if self._documents is None:
            raise InputError(f"retriever {self.name!r} has no corpus: call index(documents) and use what it returns")
        return self._documents

    @abstractmethod
    def _build(self, documents: tuple[Document, ...]) -> None:
        """Set up ``self`` (a fresh copy) for ``documents``, which may be empty."""

    @abstractmethod
    def _search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """``k`` hits per query, best first; 1 <= k <= number of documents."""
