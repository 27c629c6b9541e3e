"""An embedding function simple enough to work out by hand."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DIMENSION = 64
WINDOW = 8


class WordEmbedder:
    """Feature hashing of words, L2-normalised; windows of 8 words that overlap by 2. Counts what it embeds."""

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        matrix = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for row, text in zip(matrix, texts, strict=True):
            for word in text.lower().split():
                row[zlib.crc32(word.encode()) % DIMENSION] += 1
            row /= np.linalg.norm(row) or 1
        return matrix

    def encode_windows(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        self.embedded += texts
        windows, owners = [], []
        for owner, text in enumerate(texts):
            words = text.split()
            for start in range(0, max(1, len(words) - 2), WINDOW - 2):
                windows.append(" ".join(words[start : start + WINDOW]))
                owners.append(owner)
        return self.encode(windows), np.array(owners, dtype=np.int64)
