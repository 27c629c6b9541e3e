"""What all listwise rerankers share: candidates with text, and candidates sorted by new scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from rag.errors import ModelOutputError
from rag.types import ScoredDocument, ranked

Scores = tuple[Sequence[float], Mapping[str, Sequence[float]]]
"""A score per candidate, and named numbers per candidate for its trace."""


def rerank_readable(
    documents: Sequence[ScoredDocument], score: Callable[[Sequence[ScoredDocument]], Scores]
) -> list[ScoredDocument]:
    """Rank the candidates that have text by ``score``; those without come last, in the order they came.

    What ``score`` gives depends on the list, so candidates without text are not shown to it; they get the
    lowest score of all minus one. A list without any text keeps its order and scores.
    """
    given = [item for item in documents if not item.document.is_empty]
    if not given:
        return list(documents)
    ranked = by_score(given, *score(given))
    rest = [item for item in documents if item.document.is_empty]
    floor = ranked[-1].score - 1
    return ranked + [
        ScoredDocument(item.document, floor, rank, item.trace) for rank, item in enumerate(rest, len(ranked) + 1)
    ]


def by_score(
    documents: Sequence[ScoredDocument], scores: Sequence[float], notes: Mapping[str, Sequence[float]]
) -> list[ScoredDocument]:
    """Sort candidates by score, best first, ties in the order they came; ``notes`` go into each trace.

    Scores are rounded to a millionth of their range: what lies below depends on the order of summation, and
    two equal passages would be told apart by it.

    Raises:
        ModelOutputError: a score is NaN or infinite.
    """
    for item, score in zip(documents, scores, strict=True):
        if not math.isfinite(score):
            raise ModelOutputError(f"document {item.document.id!r} got the score {score}, which is not a finite number")
    spread = max(scores) - min(scores)
    digits = 6 - math.ceil(math.log10(spread)) if spread else 12
    traces = [
        {**item.trace, **{name: values[place] for name, values in notes.items()}}
        for place, item in enumerate(documents)
    ]
    return ranked([item.document for item in documents], [round(score, digits) for score in scores], traces)
