"""Attention sorting: the documents the model looks at most come last, nearest to where it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from rag.attention.types import Attender, AttentionSpec, Head
from rag.compressors.ordering.document_attention import Pooling, document_attention
from rag.compressors.ordering.permutations import ascending, settle
from rag.errors import ConfigError
from rag.registry import register
from rag.types import ORDERING_NOTES, Query, ScoredDocument


@register("ordering", "attention-sort")
class AttentionSort:
    """Ascending by attention, repeated until the order stays (Peysakhovich and Lerer, arXiv 2310.01427).

    In the engine's block layout all documents stand at the same positions and attention does not depend on
    their order, so the first pass is the fixed point and the only one. In the causal layout every iteration
    reads the whole list anew. Mean or sum over a document's tokens is not known of the paper (UNVERIFIED).

    Args:
        engine: reads the attention where `order` is not given a shared pass.
        heads: the heads that are averaged; None for every head of the model, as published.
        iterations: most passes, each over the documents in the order of the last (published: 1 to 5).
        max_tokens: most document tokens of all passes together. A further pass that would read more than what
            is left is not run; the first always is. None for no bound.
        pooling: mean over a document's tokens (long documents get no advantage), or their sum.

    Raises:
        ConfigError: fewer than 1 iteration or token, or an unknown pooling.
    """

    def __init__(
        self,
        engine: Attender,
        *,
        heads: tuple[Head, ...] | None = None,
        iterations: int = 5,
        max_tokens: int | None = None,
        pooling: Pooling = "mean",
    ) -> None:
        if iterations < 1:
            raise ConfigError(f"iterations must be at least 1, given {iterations}")
        if max_tokens is not None and max_tokens < 1:
            raise ConfigError(f"max_tokens must be at least 1, given {max_tokens}")
        if pooling not in get_args(Pooling):
            raise ConfigError(f"pooling {pooling!r}; accepted: {', '.join(get_args(Pooling))}")
        self._engine = engine
        self._iterations = iterations
        self._max_tokens = max_tokens
        self._pooling = pooling
        self.spec = AttentionSpec(heads and tuple(Head(*head) for head in heads), ("last",))

    def order(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """Documents by the attention they get, the most attended last; equals keep their order.

        Empty documents come first. The first pass is ``attender``'s, where one is given; further passes
        are the engine's own, since a shared pass was read in another order. Every document's trace gets
        `ORDERING_NOTES`: ``passes``, the ``tokens`` of documents they read, and why they ``stopped``
        ("order unchanged", "iterations", "cost", or "block layout").
        """
        if not any(not item.document.is_empty for item in documents):
            return list(documents)
        readers = iter([attender or self._engine])
        read: list[int] = []

        def step(order: Sequence[int]) -> list[int]:
            reader = next(readers, self._engine)
            attention = reader.attend(query, [documents[i].document for i in order], self.spec)
            read.append(len(attention.token_ids))
            scores = document_attention(attention, self.spec.heads, self._pooling)
            return [order[i] for i in ascending(scores.tolist())]

        def affordable() -> bool:
            return self._max_tokens is None or sum(read) + read[-1] <= self._max_tokens

        # Not part of the protocol: an attender that does not say is taken to depend on the order.
        in_blocks = getattr(self._engine, "layout", None) == "block"
        settled = settle(len(documents), step, 1 if in_blocks else self._iterations, affordable)
        notes = {
            "passes": settled.steps,
            "tokens": sum(read),
            "stopped": "block layout" if in_blocks else settled.stopped,
        }
        return [replace(documents[i], trace={**documents[i].trace, ORDERING_NOTES: notes}) for i in settled.order]
