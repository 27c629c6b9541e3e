"""What is kept of the sentences that an answer rests on: pure functions over spans.

Every system is judged on the same sentences, those of `rag.sentences`, whatever units it chose from: a compressor of
words and one of whole documents can be compared with one of sentences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag.errors import InputError
from rag.eval.collections import Question
from rag.sentences import sentences, trim
from rag.types import Document, ScoredSentence, Span

Spans = Mapping[str, Sequence[Span]]
"""Document id to ascending spans of its text that do not overlap."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document, and whether the answer rests on it."""

    document_id: str
    span: Span
    supporting: bool

    @property
    def length(self) -> int:
        """Characters."""
        return self.span.end - self.span.start


def find_supporting(question: Question) -> tuple[dict[str, list[Span]], int]:
    """Where the supporting sentences stand in the question's documents, and how many of them stand nowhere."""
    texts = {document.id: document.text for document in question.documents}
    found: dict[str, list[Span]] = {}
    lost = 0
    for item in question.supporting_sentences:
        wanted = item.text.strip()
        start = texts.get(item.document_id, "").find(wanted) if wanted else -1
        if start < 0:
            lost += 1
        else:
            found.setdefault(item.document_id, []).append(Span(start, start + len(wanted)))
    return found, lost


def label(documents: Sequence[Document], supporting: Spans, language: str = "en") -> tuple[Sentence, ...]:
    """All sentences of the documents; supporting is one that shares a character with a supporting span."""
    return tuple(
        Sentence(document.id, span, any(_overlap(span, marked) for marked in supporting.get(document.id, ())))
        for document in documents
        if document.text.strip()
        for span in (trim(document.text, of) for of in sentences(document.text, language))
    )


@dataclass(frozen=True, slots=True)
class Support:
    """How much of the supporting sentences was kept, and how much of what was kept is supporting.

    ``recall`` and ``precision`` count sentences, kept where every character is; ``recall_weighted`` and
    ``precision_weighted`` count characters, also of sentences that were kept in part. Where nothing was kept, both
    precisions are 0.
    """

    recall: float
    precision: float
    recall_weighted: float
    precision_weighted: float


def support(labelled: Sequence[Sentence], kept: Spans) -> Support | None:
    """Measure what was kept; None where no sentence is supporting."""
    total = [item for item in labelled if item.supporting]
    if not total:
        return None
    covered = {item: _covered(item.span, kept.get(item.document_id, ())) for item in labelled}
    whole = [item for item in labelled if covered[item] == item.length]
    hits = sum(item.supporting for item in whole)
    characters = sum(covered[item] for item in total)
    return Support(
        recall=hits / len(total),
        precision=hits / len(whole) if whole else 0.0,
        recall_weighted=characters / sum(item.length for item in total),
        precision_weighted=characters / (sum(covered.values()) or 1),
    )


def separation(labelled: Sequence[Sentence], scored: Mapping[str, Sequence[ScoredSentence]]) -> float | None:
    """AUC of a system's scores: the chance that a supporting sentence scores above another one of the same question.

    A sentence has the greatest score of the system's units that overlap it; one that the system did not score ranks
    below all others. Equal scores count half. None where all sentences are supporting or none is, or nothing is scored.
    """
    if not any(scored.values()):
        return None
    scores = [
        max(
            (unit.score for unit in scored.get(item.document_id, ()) if _overlap(unit.span, item.span)),
            default=-math.inf,
        )
        for item in labelled
    ]
    return auc(scores, [item.supporting for item in labelled])


def auc(scores: Sequence[float], positive: Sequence[bool]) -> float | None:
    """Area under the ROC curve, by ranks (Mann and Whitney 1947); None without positives or without negatives.

    Raises:
        InputError: a score is NaN.
    """
    from scipy.stats import rankdata

    if any(map(math.isnan, scores)):
        raise InputError("scores must be numbers, given NaN")
    count = sum(positive)
    others = len(positive) - count
    if not count or not others:
        return None
    ranks = rankdata(scores)
    above = sum(rank for rank, wanted in zip(ranks, positive, strict=True) if wanted) - count * (count + 1) / 2
    return float(above / (count * others))


def _overlap(a: Span, b: Span) -> int:
    return max(0, min(a.end, b.end) - max(a.start, b.start))


def _covered(span: Span, kept: Sequence[Span]) -> int:
    return sum(_overlap(span, piece) for piece in kept)
