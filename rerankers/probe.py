"""The probe: late interaction through a few heads, fused with what the retrievers said by learned weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rag.attention.late_interaction import best_token_scores
from rag.attention.probe import Probe, attention_part
from rag.attention.types import Attender, AttentionMap, AttentionSpec, Engine, Head
from rag.bridges import BRIDGES, Wording, bridged
from rag.errors import ArtefactError
from rag.registry import register
from rag.rerankers.listwise import Scores, rerank_readable
from rag.standard_scores import Floats, standard_scores
from rag.types import Document, Query, ScoredDocument

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

STATISTICS: Mapping[str, Callable[[AttentionMap, Sequence[Head]], torch.Tensor]] = {"best-token": best_token_scores}
"""What a document probe may weigh: (map, heads) to scores (H, D), greater is better."""


FOLLOWING = ("named-titles",)
"""Which `rag.bridges.BRIDGES` a document probe may weigh beside the retrievers."""


@register("reranker", "probe")
class ProbeReranker:
    """Ranks by a learned sum of head scores and retrieval scores: the default reranker.

    Head scores are late interaction through attention (`rag.attention.late_interaction`). The retrieval scores are what
    each member of the retriever noted in the candidate's trace (``bm25``, ``dense``); a document that a member did not
    find counts as its worst. The weight of a member that no candidate was seen by goes to the incoming score.
    All are z-scored within the list; a list whose scores are all equal is ranked by the heads alone. In a second step,
    documents rise whose title the best documents name, or that name the title of one of these (`rag.bridges`): what
    questions of several steps need.

    Args:
        engine: reads attention where no shared pass is given.
        probe: the file that `rag probe train` wrote; None for the one that ships with the model.

    Raises:
        ConfigError: no probe is given and none ships for this model.
        ArtefactError: a file that is no document probe, or was made for another model, wording or layout, or that
            weighs a bridge which is for sentences.
    """

    def __init__(self, engine: Engine, *, probe: Path | None = None) -> None:
        self._engine = engine
        self._probe = Probe.choose(engine, "document", probe, frozenset(STATISTICS))
        # Any other name is that of a retriever, which none that a bridge has can be.
        if unknown := sorted(self._probe.signals.keys() & BRIDGES.keys() - set(FOLLOWING)):
            raise ArtefactError(
                f"probe {probe}: expected signals that are retrievers' names or among {', '.join(FOLLOWING)}; "
                f"found {', '.join(unknown)}, for sentences only"
            )

    @property
    def spec(self) -> AttentionSpec:
        """What is read: every query row of the probe's heads."""
        return AttentionSpec(self._probe.read_heads(), ("all",))

    def rerank(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """See `rag.stages.Reranker`; ``trace["attention"]`` is the heads' part of the score."""

        def scores(given: Sequence[ScoredDocument]) -> Scores:
            answer = (attender or self._engine).attend(query, [item.document for item in given], self.spec)
            attention = attention_part(
                self._probe.heads,
                len(given),
                lambda name, heads: STATISTICS[name](answer, heads).double().numpy(),
            )
            weights = self._probe.signals
            total = attention + self._probe.bias
            for name, weight in weights.items():
                if name not in FOLLOWING:
                    total = total + weight * standard_scores(signal(given, name))
            for name, values in following(total, query, [item.document for item in given], weights).items():
                total = total + weights[name] * values
            return total.tolist(), {"attention": attention.tolist()}

        return rerank_readable(documents, scores)


def following(
    first: Floats, query: Query, documents: Sequence[Document], names: Iterable[str] = FOLLOWING
) -> dict[str, Floats]:
    """Those of `FOLLOWING` that are among ``names``: what leads on from the first scores (D,)."""
    wanted = [name for name in FOLLOWING if name in names]
    return bridged(first, Wording.of_documents(query, documents), wanted) if wanted else {}


def signal(documents: Sequence[ScoredDocument], name: str) -> Floats:
    """What the retriever ``name`` said of each candidate, float64 (D,).

    A candidate that it did not find gets the lowest of the list; where it found none, the incoming scores stand in.
    """
    noted = [item.trace.get(name) for item in documents]
    known = [float(value) for value in noted if value is not None]
    if not known:
        return np.array([item.score for item in documents], dtype=np.float64)
    lowest = min(known)
    return np.array([lowest if value is None else float(value) for value in noted], dtype=np.float64)
