"""What rerankers share that rank by attention alone: one map, and a pure function from it to document scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rag.attention.types import Attender, AttentionMap, AttentionSpec
from rag.rerankers.listwise import Scores, rerank_readable
from rag.types import Query, ScoredDocument

if TYPE_CHECKING:
    import torch


class MapReranker(ABC):
    """Reads one attention map and ranks by `score`; the score that candidates came with plays no part.

    A method is a subclass: a constructor that says which rows of which heads are read, and `score`. ``note`` is the
    name of the score in each candidate's trace.

    Args:
        engine: reads attention where no shared pass is given.
        spec: what is read.
    """

    note: ClassVar[str]

    def __init__(self, engine: Attender, spec: AttentionSpec) -> None:
        self._engine = engine
        self.spec = spec

    def rerank(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """See `rag.stages.Reranker`."""

        def scores(given: Sequence[ScoredDocument]) -> Scores:
            answer = (attender or self._engine).attend(query, [item.document for item in given], self.spec)
            values = self.score(query, answer).tolist()
            return values, {self.note: values}

        return rerank_readable(documents, scores)

    @abstractmethod
    def score(self, query: Query, answer: AttentionMap) -> torch.Tensor:
        """The score (D,) of each document of a map that was read with `spec`."""
