"""Attention sorting: the documents the model looks at most come last, nearest to where it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rag.attention.reading import head_rows
from rag.attention.types import Attender, AttentionMap, AttentionSpec, Head
from rag.compressors.ordering.permutations import ascending, settle
from rag.errors import ConfigError, InputError
from rag.registry import register
from rag.types import Query, ScoredDocument

Pooling = Literal["mean", "sum"]


def document_attention(
    attention: AttentionMap, heads: Sequence[Head] | None = None, pooling: Pooling = "mean"
) -> NDArray[np.float64]:
    """The last row's attention to each document, mean over ``heads`` (None: all): (D,).

    Pooled over the tokens of each window, the greatest of a document's windows; 0 for an empty document.

    Raises:
        InputError: the map lacks the last row or a head.
    """
    if "last" not in attention.rows:
        raise InputError(f"attention sorting reads the 'last' row; the map has: {', '.join(attention.rows)}")
    row = np.asarray(attention.rows["last"])[head_rows(attention, heads), 0].mean(axis=0, dtype=np.float64)
    scores = np.zeros(len(attention.documents))
    for block in attention.blocks:
        tokens = row[block.tokens.start : block.tokens.end]
        if len(tokens):
            value = tokens.mean() if pooling == "mean" else tokens.sum()
            scores[block.document] = max(scores[block.document], value)
    return scores


@register("ordering", "attention-sort")
class AttentionSort:
    """Ascending by attention, repeated until the order stays (Peysakhovich and Lerer, arXiv 2310.01427).

    Args:
        engine: reads the attention where `order` is not given a shared pass.
        heads: the heads that are averaged; None for every head of the model, as published.
        iterations: most passes, each over the documents in the order of the last. In the engine's block
            layout attention does not depend on the order, so one pass is the fixed point; in the causal
            layout the paper uses up to 5.
        pooling: mean over a document's tokens (long documents get no advantage), or their sum.

    Raises:
        ConfigError: fewer than 1 iteration, or an unknown pooling.
    """

    def __init__(
        self,
        engine: Attender,
        *,
        heads: tuple[Head, ...] | None = None,
        iterations: int = 1,
        pooling: Pooling = "mean",
    ) -> None:
        if iterations < 1:
            raise ConfigError(f"iterations must be at least 1, given {iterations}")
        if pooling not in get_args(Pooling):
            raise ConfigError(f"pooling {pooling!r}; accepted: {', '.join(get_args(Pooling))}")
        self._engine = engine
        self._iterations = iterations
        self._pooling = pooling
        self.spec = AttentionSpec(heads and tuple(Head(*head) for head in heads), ("last",))

    def order(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """Documents by the attention they get, the most attended last; equals keep their order.

        Empty documents come first. The first pass is ``attender``'s, where one is given; further passes
        are the engine's own, since a shared pass was read in another order.
        """
        if not any(not item.document.is_empty for item in documents):
            return list(documents)
        readers = iter([attender or self._engine])

        def step(order: Sequence[int]) -> list[int]:
            reader = next(readers, self._engine)
            attention = reader.attend(query, [documents[i].document for i in order], self.spec)
            scores = document_attention(attention, self.spec.heads, self._pooling)
            return [order[i] for i in ascending(scores.tolist())]

        return [documents[i] for i in settle(len(documents), step, self._iterations)]
