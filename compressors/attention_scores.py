"""Sentence scores from an `AttentionMap`: pure functions over arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag.attention.reading import calibrated_attention, head_rows
from rag.attention.types import AttentionMap, Head
from rag.errors import InputError
from rag.types import Span

Floats = NDArray[np.float64]


def calibrated_tokens(attention: AttentionMap, heads: Sequence[Head] | None = None) -> Floats:
    """Per token, the mean query row less the content-free one, summed over ``heads`` (None: all): (T,).

    Chen et al., ICLR 2025, section 3, for a chosen set of heads (Zhang et al., EMNLP 2025). Values may be
    negative: the content-free query looked there more.

    Raises:
        InputError: the map lacks the rows, the calibration or a head.
    """
    return np.asarray(calibrated_attention(attention, heads).double().sum(0).numpy())


def last_row_shares(attention: AttentionMap, heads: Sequence[Head] | None = None) -> Floats:
    """Per head and token, the last prompt row's attention as a share of what the documents get: (H, T).

    Sentinel's raw feature (Zhang et al., arXiv 2505.23277): each head's row sums to 1 over the context.

    Raises:
        InputError: the map lacks the rows or a head.
    """
    row = _row(attention, "last")[head_rows(attention, heads)].astype(np.float64)
    return np.asarray(row / np.maximum(row.sum(axis=1, keepdims=True), 1e-8))


def sentence_means(
    attention: AttentionMap, spans: Sequence[Sequence[Span]], values: Floats, length_power: float = 1.0
) -> list[Floats]:
    """Mean of ``values`` over the tokens of each sentence, or with ``length_power`` p the sum over (tokens) ** p.

    Args:
        attention: whose tokens ``values`` belong to.
        spans: the sentences of each document of the map, ascending and apart.
        values: shape (F, T): F features of each token.

    Returns:
        Per document, shape (F, n) for its n sentences. A token belongs to the sentence that holds its last
        character; tokens of the title and between sentences count for none. Where windows overlap, a
        sentence has the greatest of its means in them; one without a token has ``-inf``.
    """
    means = [np.full((len(values), len(of)), -np.inf) for of in spans]
    for block in attention.blocks:
        owner = token_owners(block.offsets, spans[block.document])
        inside = np.flatnonzero(owner >= 0)
        if not len(inside):
            continue
        numbers, first, counts = np.unique(owner[inside], return_index=True, return_counts=True)
        sums = np.add.reduceat(values[:, block.tokens.start + inside], first, axis=1)
        here = means[block.document]
        here[:, numbers] = np.maximum(here[:, numbers], sums / counts**length_power)
    return means


def token_owners(offsets: Sequence[Span], spans: Sequence[Span]) -> NDArray[np.int64]:
    """The sentence that holds each token's last character (T,), -1 for none; ascending over those that have one."""
    if not spans:
        return np.full(len(offsets), -1)
    starts = np.array([span.start for span in spans])
    ends = np.array([span.end for span in spans])
    last = np.array([max(end - 1, start) for start, end in offsets], dtype=np.int64)
    owner = np.searchsorted(starts, last, side="right") - 1
    return np.where((last >= 0) & (owner >= 0) & (last < ends[owner]), owner, -1)


def _row(attention: AttentionMap, name: str) -> NDArray[np.float32]:
    """The one row of that name of every head: (H, T)."""
    rows = {str(key): value for key, value in attention.rows.items()}
    if name not in rows:
        raise InputError(f"the attention map has no {name!r} row; it has: {', '.join(rows)}")
    return np.asarray(rows[name], dtype=np.float32)[:, 0]
