"""What stages need of an embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

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
