"""Cutting a long document into overlapping windows of whole sentences, so that nothing is truncated."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from rag.types import Span


def token_windows(offsets: Sequence[Span], sentences: Sequence[Span], limit: int, overlap: int) -> list[Span]:
    """Token ranges that cover all tokens, each at most ``limit`` long, cut at sentence borders.

    Args:
        offsets: character range of each token, in text order.
        sentences: character ranges of the sentences, in text order.
        limit: most tokens of one window; a sentence longer than that is cut between tokens.
        overlap: a window starts with the sentences that end the one before, up to this many tokens.

    Returns:
        Half-open token ranges; one range where everything fits, none where there is no token.
    """
    total = len(offsets)
    if total <= limit:
        return [Span(0, total)] if total else []
    starts = [offset.start for offset in offsets]
    borders = sorted({0, total, *(bisect_left(starts, sentence.start) for sentence in sentences)})
    pieces: list[int] = [0]
    for border in borders[1:]:
        while border - pieces[-1] > limit:
            pieces.append(pieces[-1] + limit)
        pieces.append(border)
    windows: list[Span] = []
    start = 0
    while True:
        end = pieces[_last_at_most(pieces, start + limit)]
        windows.append(Span(start, end))
        if end == total:
            return windows
        # Step back to the first border inside the overlap; a border at ``end`` itself means no overlap.
        back = pieces[bisect_left(pieces, end - overlap)]
        following = pieces[_last_at_most(pieces, end) + 1]
        start = back if back > start and following - back <= limit else end


def _last_at_most(values: Sequence[int], bound: int) -> int:
    """Index of the last of the sorted ``values`` that is not above ``bound``."""
    index = bisect_left(values, bound + 1) - 1
    return max(index, 0)
