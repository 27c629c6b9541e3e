"""From attention maps to document scores: pure functions, one per published formula.

Shapes: H heads, T tokens of all blocks, D documents. A document read in several windows gets the best of
its windows' scores; one without text has no block and gets -inf (rerankers leave it out beforehand).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from rag.attention.reading import calibrated_attention
from rag.standard_scores import standard_scores

if TYPE_CHECKING:
    from rag.attention.types import AttentionMap, Head

LENGTH_POWER = 0.5
"""Between sum and mean: best of the three for the chosen heads of SmolLM2 on SciFact train (docs/heads.md)."""


def drop_negative_outliers(attention: torch.Tensor) -> torch.Tensor:
    """Set tokens (last axis) below mean - 2 std of their document to 0; high outliers stay (ICR, section 3).

    The standard deviation is the unbiased one; a document of one token, where it does not exist, is
    left as it is.
    """
    if attention.shape[-1] < 2:
        return attention
    floor = attention.mean(-1, keepdim=True) - 2 * attention.std(-1, keepdim=True)
    return torch.where(attention >= floor, attention, 0.0)


def document_scores(answer: AttentionMap, attention: torch.Tensor, length_power: float = 0.0) -> torch.Tensor:
    """Masked sum over each document's tokens, over (its tokens) ** ``length_power``: (H, T) to (H, D), or (T,) to (D,).

    Power 0 is the published sum, which favours long documents, 1 the mean, which favours short ones.
    """
    scores = attention.new_full((*attention.shape[:-1], len(answer.documents)), float("-inf"))
    for block in answer.blocks:
        tokens = attention[..., slice(*block.tokens)]
        mass = drop_negative_outliers(tokens).sum(-1) / tokens.shape[-1] ** length_power
        scores[..., block.document] = torch.maximum(scores[..., block.document], mass)
    return scores


def icr_scores(answer: AttentionMap, heads: Sequence[Head] | None = None) -> torch.Tensor:
    """In-context reranking scores (D,): calibrated attention summed over heads, masked, summed over tokens.

    With ``heads`` this is the retrieval-head score (Zhang et al., "Query-Focused Retrieval Heads Improve
    Long-Context Reasoning and Re-ranking", EMNLP 2025); with None, ICR as published, over all heads.
    """
    return document_scores(answer, calibrated_attention(answer, heads).sum(0))


def head_scores(
    answer: AttentionMap, heads: Sequence[Head] | None = None, length_power: float = LENGTH_POWER
) -> torch.Tensor:
    """Score of each document by each head alone: (H, D), masked head by head. What head detection ranks with."""
    return document_scores(answer, calibrated_attention(answer, heads), length_power)


def zscore(scores: torch.Tensor) -> torch.Tensor:
    """Standard scores within the list (last axis), float64; all equal gives all 0."""
    return torch.from_numpy(standard_scores(scores.double().numpy()))
