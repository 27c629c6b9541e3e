"""What stages read off an `AttentionMap`: rows of chosen heads, and their attention less the content-free one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rag.attention.types import AttentionMap, Head
from rag.errors import InputError

if TYPE_CHECKING:
    import torch


def head_rows(answer: AttentionMap, heads: Sequence[Head] | None) -> list[int]:
    """Places of ``heads`` (all where None) on the map's head axis.

    Raises:
        InputError: the map was not read for one of them; names them.
    """
    place = {head: position for position, head in enumerate(answer.heads)}
    missing = [str(Head(*head)) for head in heads or () if Head(*head) not in place]
    if missing:
        raise InputError(f"heads {', '.join(missing)} are not in the attention map, which has {len(place)} heads")
    return list(place.values()) if heads is None else [place[Head(*head)] for head in heads]


def calibrated_attention(answer: AttentionMap, heads: Sequence[Head] | None = None) -> torch.Tensor:
    """Mean attention of the query's rows minus that of the content-free query's rows, shape (H, T).

    What every query gives a token (its position, its being a full stop) cancels out; what this query gives
    it stays. Values may be negative (Chen et al., "Attention in Large Language Models Yields Efficient
    Zero-Shot Re-Rankers", ICLR 2025, section 3).

    Raises:
        InputError: the map lacks the mean rows, the calibration or a head.
    """
    if answer.calibration is None or "mean" not in answer.rows:
        raise InputError('calibrated attention needs a map read with AttentionSpec(rows=("mean",), calibrated=True)')
    places = head_rows(answer, heads)
    return (answer.rows["mean"][places] - answer.calibration["mean"][places])[:, 0]
