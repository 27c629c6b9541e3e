"""ReAttn: attention re-weighted by how rare its words are among the candidates, and by how it is spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag.attention.types import AttentionMap, AttentionSpec, Engine, HeadChoice
from rag.errors import InputError
from rag.registry import register
from rag.rerankers.map_reranker import MapReranker
from rag.types import Query
from rag.words import Tokeniser

if TYPE_CHECKING:
    import torch


@register("reranker", "reattn")
class ReAttnReranker(MapReranker):
    """Ranks by re-weighted attention (Tian et al., Findings of EACL 2026, arXiv 2602.19969): a reconstruction.

    The paper's idea is known, its formulas and constants are not public: what is computed here is written in
    `rag.rerankers.reattn_scores` and is UNVERIFIED against the paper's. Attention on a word of the query that many
    candidates hold counts less (inverse document frequency over the candidates, at word level), and a document whose
    attention sits on a few tokens counts less than one where it is spread (entropy). What each does to SmolLM2 is
    measured in docs/heads.md.

    The weights of words need a list: with fewer than 5 candidates every weight is 1. Tokens of the title always have
    weight 1, since a map does not tell which word they are from; title words count as words of their document.

    Args:
        engine: reads attention where no shared pass is given.
        heads: as for the reranker ``heads``.
        spread: lambda of the entropy term, 0 or more; 0 turns it off. The default is the best of 0, 0.25, 0.5 and 1
            on SciFact train.
        language: of the words, as for BM25: a Snowball language.

    Raises:
        InputError: a negative ``spread``.
        ConfigError: an unknown language, or no heads (see the reranker ``heads``).
        ArtefactError: a list of heads that does not fit the model.
    """

    note = "reattn"

    def __init__(
        self, engine: Engine, *, heads: HeadChoice = None, spread: float = 1.0, language: str = "english"
    ) -> None:
        if not spread >= 0:
            raise InputError(f"spread (lambda of the entropy term) must be 0 or more, given {spread}")
        self._spread = spread
        self._words = Tokeniser(language, stopwords=False, min_length=1)
        super().__init__(engine, AttentionSpec(engine.choose_heads("document", heads), calibrated=True))

    def score(self, query: Query, answer: AttentionMap) -> torch.Tensor:
        """See `rag.rerankers.reattn_scores.reattn_scores`."""
        from rag.rerankers.reattn_scores import reattn_scores, word_weights

        weights = word_weights(answer, query.full_text, self._words)
        return reattn_scores(answer, weights, self.spec.heads, self._spread)
