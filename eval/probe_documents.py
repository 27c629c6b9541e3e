"""Labelled lists of documents for a probe: late interaction of every head with each candidate, and the retrievers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rag.attention.types import AttentionSpec
from rag.eval.collections import Collection
from rag.eval.head_reader import HeadReader
from rag.eval.ltr_data import CandidateList
from rag.eval.probe_fit import Floats, LabelledItems
from rag.rerankers.probe import STATISTICS, following, signal
from rag.standard_scores import standard_scores
from rag.types import Query, ScoredDocument

SIGNALS = ("bm25", "dense")
"""Members of the retriever whose scores are weighed beside the heads."""


@dataclass(frozen=True)
class DocumentReader(HeadReader):
    """Features of candidate lists: each statistic of each head of the lowest ``layers`` layers, then `SIGNALS`.

    All are z-scored within the list.
    """

    statistics = tuple(STATISTICS)
    signals = SIGNALS

    def table(self, query: Query, given: Sequence[ScoredDocument]) -> Floats:
        """Features (D, F) of the candidates, all with text."""
        spec = AttentionSpec(self.heads, ("all",))
        answer = self.engine.attend(query, [item.document for item in given], spec)
        rows = [standard_scores(statistic(answer, self.heads).double().numpy()) for statistic in STATISTICS.values()]
        rows += [standard_scores(signal(given, name))[None] for name in SIGNALS]
        return np.concatenate(rows).T


def labelled(lists: Sequence[CandidateList], collection: Collection) -> list[LabelledItems]:
    """The lists of a collection as training data."""
    documents = {document.id: document for document in collection.documents}
    queries = {query.id: query for query in collection.queries}
    return [
        LabelledItems(
            item.key,
            item.values,
            np.array([max(0, item.judgements.get(name, 0)) for name in item.documents], dtype=np.float64),
            partial(following, query=queries[item.query], documents=[documents[name] for name in item.documents]),
        )
        for item in lists
        if item.documents
    ]
