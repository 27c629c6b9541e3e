"""Sentences that say again what a better one says: the same words, up to a few."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag.words import Tokeniser

_SHINGLE = 3
_ROWS = 256


def repeats(texts: Sequence[str], scores: NDArray[np.float64], similarity: float) -> NDArray[np.bool_]:
    """Which texts repeat one that scores better (or as well, and comes before): boolean (n,).

    Two texts are alike where the Jaccard coefficient of their sets of word triples is at least ``similarity``
    (Broder, "On the resemblance and containment of documents", 1997), and where they hold the same numbers: "14 m
    deep" does not repeat "15 m deep", however long the rest. A text of fewer than three words repeats only the same
    words; one without a word repeats nothing. A text that repeats another one is not itself repeated.
    """
    tokenise = Tokeniser(stem=False, stopwords=False, min_length=1)
    words = [tuple(tokenise(text)) for text in texts]
    order = sorted(range(len(texts)), key=lambda item: -scores[item])
    best: dict[tuple[str, ...], int] = {}
    for item in order:  # the same words need no comparison, and there may be thousands
        best.setdefault(words[item], item)
    distinct = [item for item in order if words[item] and best[words[item]] == item]
    alike = _alike([words[item] for item in distinct], similarity)
    repeated = np.array([bool(of) and best[of] != item for item, of in enumerate(words)], dtype=bool)
    for place, better in enumerate(alike):
        repeated[distinct[place]] = any(not repeated[distinct[other]] for other in better)
    return repeated


def _alike(words: Sequence[tuple[str, ...]], similarity: float) -> list[list[int]]:
    """The earlier texts that each text is like."""
    from scipy.sparse import csr_matrix

    columns: dict[tuple[str, ...], int] = {}
    rows = [
        {columns.setdefault(of[at : at + _SHINGLE], len(columns)) for at in range(max(1, len(of) - _SHINGLE + 1))}
        for of in words
    ]
    numbers = [sorted(word for word in of if any(map(str.isdigit, word))) for of in words]
    sizes = np.array([len(row) for row in rows])
    ends = np.cumsum([0, *sizes])
    held = csr_matrix(
        (np.ones(ends[-1], dtype=np.int32), np.array([c for row in rows for c in row], dtype=np.int64), ends),
        shape=(len(rows), len(columns)),
    )
    found: list[list[int]] = [[] for _ in rows]
    transposed = held.T.tocsr()
    for start in range(0, len(rows), _ROWS):  # a phrase that all share makes the product dense: a few rows at a time
        shared = (held[start : start + _ROWS] @ transposed).tocoo()
        place = shared.row + start
        union = sizes[place] + sizes[shared.col] - shared.data
        for this, other in np.column_stack([place, shared.col])[shared.data >= similarity * union].tolist():
            if other < this and numbers[this] == numbers[other]:
                found[this].append(other)
    return found
