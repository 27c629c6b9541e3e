"""Why a document scored what it did: the heads and the tokens that its attention score is the sum of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from rag.attention.reading import calibrated_attention
from rag.attention.types import Attender, AttentionMap, AttentionSpec, BlockSpan, Head
from rag.rerankers.scores import drop_negative_outliers
from rag.types import Document, Query, Span


@dataclass(frozen=True, slots=True)
class HeadShare:
    """What one head adds to a document's score."""

    head: Head
    value: float


@dataclass(frozen=True, slots=True)
class TokenShare:
    """What one token adds, all heads together: ``span`` is its range in the document's text.

    None for tokens of the title and of the template: they count, but stand nowhere in the text.
    """

    span: Span | None
    value: float


@dataclass(frozen=True, slots=True)
class Explained:
    """One document's score, and the same score as a sum over heads and as a sum over tokens.

    ``heads`` are sorted by what they add, most first; ``tokens`` stand in text order. ``window`` is the range of the
    text that was read for them: of a document read in several windows, the one that decides its score. A document
    without text has score 0, and nothing that makes it.
    """

    id: str
    score: float
    window: Span
    windows: int
    heads: tuple[HeadShare, ...]
    tokens: tuple[TokenShare, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The documents of one query, in the order they were given."""

    query: str
    documents: tuple[Explained, ...]


def explain(
    attender: Attender, query: Query, documents: Sequence[Document], heads: Sequence[Head] | None
) -> Explanation:
    """Read the documents together and take their scores apart.

    The score is the calibrated attention of the query summed over heads and over the document's tokens (in-context
    reranking, Chen et al., ICLR 2025; with chosen heads, Zhang et al., EMNLP 2025), before any token is masked and
    without any normalisation: the exact sum of what is listed. The rerankers build their scores from it (they mask
    negative outliers, divide by lengths, standardise within the list), so the same heads and tokens make theirs.

    Args:
        attender: the engine, or the pass of the request that is to be explained.
        query: the question.
        documents: candidates that compete for attention: give all that were ranked together.
        heads: those of the reranker (its ``spec.heads``); None for all.

    Raises:
        InputError: a head outside the model.
    """
    chosen = None if heads is None else tuple(Head(*head) for head in heads)
    if all(document.is_empty for document in documents):
        return Explanation(query.text, tuple(_nothing(document) for document in documents))
    answer = attender.attend(query, documents, AttentionSpec(chosen, calibrated=True))
    return Explanation(query.text, explained(answer, chosen))


def explained(answer: AttentionMap, heads: Sequence[Head] | None = None) -> tuple[Explained, ...]:
    """`explain` for a map that is there already: one per document of the map, in its order."""
    attention = calibrated_attention(answer, heads).double()
    names = answer.heads if heads is None else tuple(Head(*head) for head in heads)
    total = attention.sum(0)
    windows: dict[int, list[BlockSpan]] = {}
    for block in answer.blocks:
        windows.setdefault(block.document, []).append(block)

    def decides(block: BlockSpan) -> float:
        return float(drop_negative_outliers(total[slice(*block.tokens)]).sum())

    return tuple(
        _explained(document, max(windows[place], key=decides), len(windows[place]), attention, names)
        if place in windows
        else _nothing(document)
        for place, document in enumerate(answer.documents)
    )


def _explained(
    document: Document, block: BlockSpan, windows: int, attention: torch.Tensor, names: Sequence[Head]
) -> Explained:
    here = attention[:, slice(*block.tokens)]
    heads = [HeadShare(head, value) for head, value in zip(names, here.sum(1).tolist(), strict=True)]
    tokens = zip(block.offsets, here.sum(0).tolist(), strict=True)
    return Explained(
        id=document.id,
        score=float(here.sum()),
        window=block.window,
        windows=windows,
        heads=tuple(sorted(heads, key=lambda share: -share.value)),
        tokens=tuple(TokenShare(span if span.start >= 0 else None, value) for span, value in tokens),
    )


def _nothing(document: Document) -> Explained:
    return Explained(document.id, 0.0, Span(0, 0), 0, (), ())
