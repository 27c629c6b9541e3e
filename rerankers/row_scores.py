"""Document scores from single rows at the end of the prompt, without masks: pure functions, one per formula.

Shapes: H heads, T tokens of all blocks, D documents. A document read in several windows gets the best of its windows;
one without text gets -inf (rerankers leave it out beforehand).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from rag.attention.reading import head_rows
from rag.attention.types import AttentionMap, Head, Rows
from rag.errors import InputError


def pooled(answer: AttentionMap, tokens: torch.Tensor, pooling: Literal["mean", "sum"]) -> torch.Tensor:
    """Mean or sum over the tokens of each window, the greatest of a document's windows: (T,) to (D,)."""
    scores = tokens.new_full((len(answer.documents),), float("-inf"))
    for block in answer.blocks:
        window = tokens[slice(*block.tokens)]
        value = window.mean() if pooling == "mean" else window.sum()
        scores[block.document] = torch.maximum(scores[block.document], value)
    return scores


def last_row(answer: AttentionMap, heads: Sequence[Head] | None = None, *, calibration: bool = False) -> torch.Tensor:
    """The last row's attention, mean over ``heads`` (None: all), float64 (T,); of the content-free query if asked.

    Raises:
        InputError: the map lacks the row or a head.
    """
    rows = answer.calibration if calibration else answer.rows
    return _rows(rows, "last", calibration)[head_rows(answer, heads), 0].double().mean(0)


def attention_sorting_scores(
    answer: AttentionMap, heads: Sequence[Head] | None = None, pooling: Literal["mean", "sum"] = "mean"
) -> torch.Tensor:
    """Attention sorting (Peysakhovich and Lerer, arXiv 2310.01427): what the last row gives each document, (D,)."""
    return pooled(answer, last_row(answer, heads), pooling)


def calibrated_last_row_scores(answer: AttentionMap, heads: Sequence[Head] | None = None) -> torch.Tensor:
    """Last row less that of the content-free query, mean over the document's tokens: (D,)."""
    return pooled(answer, last_row(answer, heads) - last_row(answer, heads, calibration=True), "mean")


def blockrank_scores(answer: AttentionMap, heads: Sequence[Head] | None = None, rows: int = 2) -> torch.Tensor:
    """BlockRank (Gupta et al., arXiv 2510.05396): attention mass of the prompt's last ``rows`` rows, (D,).

    The softmax goes over the document tokens only (a row's probabilities over everything, divided by what the
    documents have of it), then mean over heads and rows, sum over each document's tokens. The scores of documents
    of one window each sum to 1.
    """
    chosen = _rows(answer.rows, "all", False)[head_rows(answer, heads), -rows:].double()
    over_documents = chosen / chosen.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    return pooled(answer, over_documents.mean((0, 1)), "sum")


def _rows(rows: dict[Rows, torch.Tensor] | None, name: Rows, calibration: bool) -> torch.Tensor:
    if rows is None or name not in rows:
        wanted = f'AttentionSpec(rows=("{name}",){", calibrated=True" if calibration else ""})'
        raise InputError(f"this score needs a map read with {wanted}; the map has: {', '.join(rows or ()) or 'none'}")
    return rows[name]
