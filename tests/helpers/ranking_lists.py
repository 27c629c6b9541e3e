"""Labelled lists whose relevance is known to come from their first two features."""

from __future__ import annotations

import numpy as np

from rag.rerankers.ltr_trees import LabelledFeatures

NAMES = ("good", "useful", "noise", "more_noise")
INCREASING = (True, True, False, False)


def labelled_lists(count: int, seed: int = 0, size: int = 12, prefix: str = "q") -> list[LabelledFeatures]:
    """``count`` queries of ``size`` documents, about a sixth of them relevant, at least one of each list."""
    random = np.random.default_rng(seed)
    lists = []
    for number in range(count):
        values = random.normal(size=(size, len(NAMES)))
        worth = values[:, 0] + 0.5 * values[:, 1] + 0.2 * random.normal(size=size)
        grades = (worth >= np.sort(worth)[-2]).astype(int)
        lists.append(LabelledFeatures(f"{prefix}{number}", values, tuple(grades.tolist())))
    return lists
