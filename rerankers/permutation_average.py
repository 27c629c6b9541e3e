"""Permutation averaging: another reranker over several orders of its candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rag import registry
from rag.attention.types import Attender, Engine
from rag.config import StageSettings
from rag.errors import ConfigError, InputError
from rag.registry import register
from rag.rerankers.listwise import Scores, rerank_readable
from rag.rerankers.order import scores_by_candidate, shuffled, stability
from rag.types import Query, ScoredDocument

if TYPE_CHECKING:
    from rag.attention.types import AttentionSpec


@register("reranker", "permutation-average")
class PermutationAverageReranker:
    """Averages the scores that another reranker gives in several orders of the candidates.

    For the causal layout, where a document's score depends on what stands before it. Scores are z-scored within each
    order before the average. The trace of every candidate holds ``kendall_tau``, the mean over the pairs of orders:
    1 says that the order made no difference, and that the other passes were not needed. That is always so in the
    block layout.

    Args:
        engine: reads attention, once per order; a shared pass is used for the given order only.
        reranker: the other reranker: its name, or a mapping with ``name`` and ``options``, as in a configuration.
        permutations: how many orders: the given one, then random ones.
        seed: of the random orders.

    Raises:
        ConfigError: an unknown reranker or option of it, or one that needs an embedder.
        InputError: fewer than 1 permutation.
    """

    def __init__(
        self, engine: Engine, *, reranker: StageSettings | str = "icr", permutations: int = 4, seed: int = 0
    ) -> None:
        if permutations < 1:
            raise InputError(f"permutations must be 1 or more, given {permutations}")
        name, options = (reranker, {}) if isinstance(reranker, str) else (reranker.name, reranker.options)

        def no_embedder() -> Any:
            raise ConfigError(f"reranker {name!r} needs an embedder, and only those that need none can be averaged")

        parts = {"engine": lambda: engine, "embedder": no_embedder}
        self._reranker: Any = registry.build("reranker", name, options, parts)
        self._permutations = permutations
        self._seed = seed

    @property
    def spec(self) -> AttentionSpec | None:
        """What the other reranker reads."""
        spec: AttentionSpec | None = getattr(self._reranker, "spec", None)
        return spec

    def rerank(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """See `rag.stages.Reranker`."""
        return rerank_readable(documents, lambda given: self._scores(query, given, attender))

    def _scores(self, query: Query, given: Sequence[ScoredDocument], attender: Attender | None) -> Scores:
        import torch

        from rag.rerankers.scores import zscore

        runs = []
        for number, order in enumerate(shuffled(given, self._permutations, self._seed)):
            # A shared pass answers every order from its first one, which is the given.
            ranked = self._reranker.rerank(query, order, attender=attender if number == 0 else None)
            runs.append(scores_by_candidate(given, ranked))
        scores = torch.tensor(runs, dtype=torch.float64)
        tau = stability(scores.numpy()).mean_tau
        return zscore(scores).mean(0).tolist(), {"kendall_tau": [tau] * len(given)}
