"""How much attention each document gets: token columns of a map pooled over documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from rag.attention.reading import head_rows
from rag.attention.types import AttentionMap, Head
from rag.errors import InputError

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]
Pooling = Literal["mean", "sum"]


def per_document(values: Floats, attention: AttentionMap, pooling: Pooling = "mean") -> Floats:
    """Token values (X, T) pooled over each document's tokens, the greatest of its windows: (X, D).

    0 for a document without tokens.
    """
    scores = np.full((len(values), len(attention.documents)), -np.inf)
    for block in attention.blocks:
        tokens = values[:, block.tokens.start : block.tokens.end]
        if tokens.size:
            pooled = tokens.mean(axis=1) if pooling == "mean" else tokens.sum(axis=1)
            scores[:, block.document] = np.maximum(scores[:, block.document], pooled)
    return np.where(np.isneginf(scores), 0.0, scores)


def document_attention(
    attention: AttentionMap,
    heads: Sequence[Head] | None = None,
    pooling: Pooling = "mean",
    *,
    calibrated: bool = False,
) -> Floats:
    """The last row's attention to each document, mean over ``heads`` (None: all): (D,).

    Pooled over the tokens of each window, the greatest of a document's windows; 0 for an empty document.
    ``calibrated`` takes away what the same tokens get from the content-free query.

    Raises:
        InputError: the map lacks the last row, the calibration or a head.
    """
    if "last" not in attention.rows:
        raise InputError(f"document attention reads the 'last' row; the map has: {', '.join(attention.rows)}")
    if calibrated and attention.calibration is None:
        raise InputError("calibrated document attention needs a map read with AttentionSpec(calibrated=True)")
    places = head_rows(attention, heads)
    row = _mean(attention.rows["last"], places)
    if calibrated and attention.calibration is not None:
        row = row - _mean(attention.calibration["last"], places)
    scores: Floats = per_document(row[None], attention, pooling)[0]
    return scores


def _mean(rows: torch.Tensor, places: Sequence[int]) -> Floats:
    """The one row (T,) of a (H, 1, T) tensor, mean over the heads at ``places``."""
    mean: Floats = np.asarray(rows)[list(places), 0].mean(axis=0, dtype=np.float64)
    return mean


def layer_attention(attention: AttentionMap) -> Floats:
    """The mean row's attention to each document per layer: mean over the layer's heads and the document's tokens.

    Shape (layers read, D), lowest layer first.

    Raises:
        InputError: the map lacks the mean row.
    """
    if "mean" not in attention.rows:
        raise InputError(f"slot attention reads the 'mean' row; the map has: {', '.join(attention.rows)}")
    rows = np.asarray(attention.rows["mean"], dtype=np.float64)[:, 0]
    layer_of = np.array([head.layer for head in attention.heads])
    layers = np.stack([rows[layer_of == layer].mean(axis=0) for layer in np.unique(layer_of)])
    return per_document(layers, attention)
