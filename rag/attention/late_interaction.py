"""Late interaction through attention: each word of the query looks for its best word in the document.

What ColBERT's MaxSim (Khattab and Zaharia, SIGIR 2020) does with embeddings, read off the attention of single heads.
A sum over a document's tokens, which is what in-context reranking takes, grows with whatever the document is long on;
the best token per query token does not, and needs no content-free query to be subtracted.

Shapes: H heads, R query rows, T tokens of all blocks, D documents.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rag.attention.reading import head_rows
from rag.attention.types import AttentionMap, Head
from rag.errors import InputError

LENGTH_POWER = 0.5
"""A longer document has more chances of a good token: what takes that back, chosen on training collections."""


def best_token_scores(
    answer: AttentionMap, heads: Sequence[Head] | None = None, length_power: float = LENGTH_POWER
) -> torch.Tensor:
    """Per head and document, the mean over the query's rows of the greatest attention to one of its tokens: (H, D).

    Divided by (the document's tokens) ** ``length_power``. A document read in several windows gets its best window;
    one without text gets -inf (rerankers leave it out beforehand).

    Raises:
        InputError: the map lacks every row of the query, or a head.
    """
    if "all" not in answer.rows:
        raise InputError('late interaction needs a map read with AttentionSpec(rows=("all",))')
    rows = answer.rows["all"][head_rows(answer, heads)]
    scores = rows.new_full((rows.shape[0], len(answer.documents)), float("-inf"))
    for block in answer.blocks:
        tokens = rows[..., slice(*block.tokens)]
        best = tokens.amax(-1).mean(-1) / tokens.shape[-1] ** length_power
        scores[:, block.document] = torch.maximum(scores[:, block.document], best)
    return scores
