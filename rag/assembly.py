"""From what the stages gave to what the caller gets: pure functions over plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

from rag.citations import Citation, text_citations
from rag.errors import ModelOutputError, shown
from rag.results import ContextDocument, ContextSentence, DroppedDocument
from rag.template import around_text
from rag.types import CORPUS_INDEX, CompressedDocument, Document, ScoredDocument, Span


def require_finite(documents: Iterable[ScoredDocument], stage: str) -> None:
    """Raise `ModelOutputError` naming the first document whose score is NaN or infinite."""
    for item in documents:
        if not math.isfinite(item.score):
            name = shown(item.document.id)
            raise ModelOutputError(f"{stage} scored document {name} {item.score}, not a finite number")


def with_empty_last(ranked: Sequence[ScoredDocument], empty: Sequence[Document]) -> list[ScoredDocument]:
    """Put documents without text behind the ranked ones, none of them scored above any of those or above 0."""
    floor = min([0.0, *(item.score for item in ranked)])
    start = len(ranked) + 1
    return [*ranked, *(ScoredDocument(document, floor, start + i) for i, document in enumerate(empty))]


def is_away(kept: CompressedDocument) -> bool:
    """True where a document had text and the compressor kept none of it."""
    return not kept.spans and bool(kept.document.text.strip())


def uncompressed(document: Document, tokens: int) -> CompressedDocument:
    """A document kept as it is; ``tokens`` are those of its text. Of a blank text there is nothing to keep."""
    if not document.text.strip():
        return CompressedDocument(document, (), (), tokens, 0)
    return CompressedDocument(document, (Span(0, len(document.text)),), (), tokens, tokens)


def scores_of(stages: Mapping[str, ScoredDocument]) -> dict[str, float]:
    """The score a document got from each stage, and the finite numbers that the stages noted about it."""
    noted = {
        name: float(value)
        for item in stages.values()
        for name, value in item.trace.items()
        if name != CORPUS_INDEX and isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    }
    return noted | {stage: float(item.score) for stage, item in stages.items()}


def context_document(
    ranked: ScoredDocument,
    kept: CompressedDocument,
    *,
    index: int,
    windows: int,
    scores: dict[str, float],
) -> ContextDocument:
    """One entry of the answer, in plain Python values."""
    document = ranked.document
    return ContextDocument(
        id=document.id,
        index=index,
        rank=ranked.rank,
        score=float(ranked.score),
        title=document.title,
        text=kept.text,
        spans=kept.spans,
        sentences=tuple(ContextSentence(item.span, float(item.score), item.kept) for item in kept.sentences),
        tokens_before=kept.tokens_before,
        tokens_after=kept.tokens_after,
        windows=windows,
        windowed=windows > 1,
        empty=document.is_empty,
        scores=scores,
        metadata=dict(document.metadata),
    )


def assemble(documents: Iterable[ContextDocument], template: str, separator: str) -> str:
    """The text for the reader model: one block per document that holds any, in reading order.

    ``template`` has the fields of `rag.template.FIELDS`, ``{number}`` counts from 1 in reading order.
    Where a field is empty, the white space it leaves at the ends of lines outside the text goes too.
    """
    framed = _framed(documents, template)
    return separator.join(before + document.text + after for document, before, after in framed)


def assemble_cited(
    documents: Iterable[ContextDocument], kept: Mapping[str, CompressedDocument], template: str, separator: str
) -> tuple[str, tuple[Citation, ...]]:
    """What `assemble` gives, and where each run of source text in it came from.

    ``kept`` holds, by id, what ``documents`` were made from.
    """
    parts: list[str] = []
    citations: list[Citation] = []
    position = 0
    for document, before, after in _framed(documents, template):
        position += len(separator) if parts else 0
        citations += text_citations(kept[document.id], position + len(before))
        parts.append(before + document.text + after)
        position += len(parts[-1])
    return separator.join(parts), tuple(citations)


def _framed(documents: Iterable[ContextDocument], template: str) -> Iterator[tuple[ContextDocument, str, str]]:
    """Each document that holds any text or title, with what stands before and behind its text."""
    head, tail = around_text(template)
    for number, document in enumerate((item for item in documents if not item.empty), start=1):
        fields = {
            "number": number,
            "id": document.id,
            "title": document.title,
            "rank": document.rank,
            "score": document.score,
        }
        before, after = (_trimmed(part.format(**fields)) for part in (head, tail))
        yield document, before, after


def _trimmed(text: str) -> str:
    """Without white space at the end of each complete line."""
    *lines, last = text.split("\n")
    return "\n".join([*(line.rstrip() for line in lines), last])


@dataclass(frozen=True, slots=True)
class Fate:
    """How far the documents of a corpus came: retrieved (in rank order), taken, and kept by the compressor."""

    ranked: tuple[ScoredDocument, ...]
    top_n: int
    away: frozenset[str]
    budget: str


def dropped(corpus: Sequence[Document], fate: Fate) -> tuple[DroppedDocument, ...]:
    """Every document that is not in the answer, in corpus order, with the stage that left it out."""
    candidates = {item.document.id: item for item in fate.ranked}
    taken = {item.document.id for item in fate.ranked[: fate.top_n]}
    out = []
    for index, document in enumerate(corpus):
        item = candidates.get(document.id)
        if item is None:
            detail = f"not among the {len(fate.ranked)} candidates that were ranked"
            out.append(DroppedDocument(document.id, index, "not_retrieved", detail))
        elif document.id not in taken:
            detail = f"rank {item.rank} of {len(fate.ranked)}; the best {fate.top_n} were taken"
            out.append(DroppedDocument(document.id, index, "below_top_n", detail, item.rank, float(item.score)))
        elif document.id in fate.away:
            detail = f"none of its sentences was kept within the budget of {fate.budget}"
            out.append(DroppedDocument(document.id, index, "compressed_away", detail, item.rank, float(item.score)))
    return tuple(out)
