"""What all listwise rerankers share: candidates with text, and candidates sorted by new scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rag.errors import ModelOutputError
from rag.types import ScoredDocument, ranked


def readable(documents: Sequence[ScoredDocument]) -> bool:
    """True where at least one candidate has text; a list without any keeps the order it came in."""
    return any(not item.document.is_empty for item in documents)


def by_score(
    documents: Sequence[ScoredDocument], scores: Sequence[float], notes: Mapping[str, Sequence[float]]
) -> list[ScoredDocument]:
    """Sort candidates by score, best first, ties in the order they came; ``notes`` go into each trace.

    Raises:
        ModelOutputError: a score is NaN or infinite.
    """
    for item, score in zip(documents, scores, strict=True):
        if not abs(score) < float("inf"):
            raise ModelOutputError(f"document {item.document.id!r} got the score {score}, which is not a finite number")
    traces = [
        {**item.trace, **{name: values[place] for name, values in notes.items()}}
        for place, item in enumerate(documents)
    ]
    return ranked([item.document for item in documents], scores, traces)
