"""What stages need of an embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rag.errors import NotTextError
from rag.types import require_text

Matrix = NDArray[np.float32]


@runtime_checkable
class TextEmbedder(Protocol):
    """Texts to unit vectors, all of a text however long it is. Must be safe to call from many threads."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One L2-normalised float32 row per text: (n, dimension)."""
        ...

    def encode_windows(self, texts: Sequence[str]) -> tuple[Matrix, NDArray[np.integer]]:
        """Embed overlapping token windows of every text, at least one each.

        Returns the windows' rows (w, dimension) and, per row, the position of its text (w,), ascending.
        """
        ...


def mean_of_windows(windows: Matrix, owners: NDArray[np.integer], count: int) -> Matrix:
    """One unit vector for each of ``count`` texts: the mean of its windows' vectors (w, d), normalised again."""
    if len(windows) == count:
        return windows
    sums = np.zeros((count, windows.shape[1]), dtype=np.float32)
    np.add.at(sums, owners, windows)
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    # A text of one window keeps its vector to the last bit, whatever it is embedded with.
    alone = np.bincount(owners, minlength=count) == 1
    return np.where(alone[:, None], sums, sums / np.maximum(norms, np.finfo(np.float32).tiny)).astype(np.float32)


def best_cosines(embedder: TextEmbedder, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """Cosine of the query and each text, the greatest over a text's windows: (n,)."""
    if not texts:
        return np.zeros(0)
    wanted = embedder.encode([query])[0]
    windows, owners = embedder.encode_windows(texts)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    best: NDArray[np.float64] = np.maximum.reduceat((windows @ wanted).astype(np.float64), starts)
    return best


def checked_texts(texts: Sequence[str]) -> list[str]:
    """The texts as a list.

    Raises:
        NotTextError: one string in place of a sequence, or an element that is no string; names its position.
    """
    if isinstance(texts, str):
        raise NotTextError(f"texts must be a sequence of strings, got one string ({texts[:40]!r})")
    return [require_text(text, f"texts[{index}]") for index, text in enumerate(texts)]
