"""The query side of a pass: a stem that all queries share, and branches that do not see each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from rag.attention.types import Rows


@dataclass(frozen=True, slots=True)
class Suffix:
    """A stem followed by branches, packed behind each other.

    ``ids`` and ``offsets`` (positions counted from the suffix's start; all branches start where the stem
    ends) have R entries; ``sees`` is boolean (R, R), on the model's device; ``branches[i]`` is the range of branch
    ``i``'s rows.
    """

    ids: tuple[int, ...]
    offsets: tuple[int, ...]
    sees: torch.Tensor
    branches: tuple[slice, ...]


def branch(stem: Sequence[int], branches: Sequence[Sequence[int]], device: torch.device) -> Suffix:
    """Lay out a stem and its branches. The real query and the content-free one are two branches: the
    stem is computed once, and neither can see the other.
    """
    ids, offsets, owners = list(stem), list(range(len(stem))), [0] * len(stem)
    rows = []
    for number, tokens in enumerate(branches, start=1):
        first = len(ids)
        ids += tokens
        offsets += range(len(stem), len(stem) + len(tokens))
        owners += [number] * len(tokens)
        rows.append(slice(first, len(ids)))
    owner, order = torch.tensor(owners), torch.arange(len(ids))
    same = (owner[:, None] == owner[None, :]) | (owner[None, :] == 0)
    sees = same & (order[:, None] >= order[None, :])
    return Suffix(tuple(ids), tuple(offsets), sees.to(device), tuple(rows))


Gather = Callable[[int, bool], tuple[torch.Tensor, torch.Tensor | None]]
"""``gather(layer, with_values)``: keys and values (key_heads, S, d) of prefix and documents at a layer."""


@dataclass(frozen=True, slots=True)
class ReadGroup:
    """One suffix over one list of documents, as a stretch of a packed batch.

    ``packed`` is the suffix's range in the batch's tokens, ``row_positions`` (R,) and ``key_positions``
    (S,) are rotary positions, ``prefix_tokens`` how many of the S keys come before the documents, and
    ``rows`` which rows are kept.
    """

    suffix: Suffix
    packed: slice
    gather: Gather
    prefix_tokens: int
    row_positions: torch.Tensor
    key_positions: torch.Tensor
    rows: tuple[Rows, ...]
