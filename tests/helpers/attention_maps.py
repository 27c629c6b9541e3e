"""Attention maps with numbers chosen by hand, for tests of pure functions over them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from rag.attention.types import AttentionMap, AttentionSpec, BlockSpan, Head
from rag.types import Document, Query, ScoredDocument, Span

HEADS = (Head(0, 0), Head(1, 1))


def scored(*texts: str) -> list[ScoredDocument]:
    """Documents "0", "1", ... in rank order."""
    return [ScoredDocument(Document(str(i), text), score=float(-i), rank=i + 1) for i, text in enumerate(texts)]


def word_map(
    documents: Sequence[Document],
    value: Callable[[str], float],
    windows: Sequence[Sequence[Span]] | None = None,
    calibration: float | None = 0.1,
) -> AttentionMap:
    """A map in which each word is a token with attention ``value(word)`` in head 0-0 and twice that in 1-1.

    A token's range takes the white space before the word in, as tokenizers do. Each block starts with a
    title token of attention 50. ``windows`` gives each document's character ranges (default: all of it).
    """
    blocks: list[BlockSpan] = []
    row: list[float] = []
    free: list[float] = []
    for number, document in enumerate(documents):
        whole = [Span(0, len(document.text))] if document.text.strip() else []
        for window in windows[number] if windows else whole:
            words = list(re.compile(r"\s*\S+").finditer(document.text, window.start, window.end))
            start = len(row)
            row += [50.0, *(value(word.group().strip()) for word in words)]
            free += [0.0, *[calibration or 0.0] * len(words)]
            offsets = (Span(-1, -1), *(Span(*word.span()) for word in words))
            blocks.append(BlockSpan(number, Span(start, len(row)), offsets, window))
    both = torch.tensor([row, [2 * x for x in row]])[:, None]
    calibrated = {"mean": torch.tensor([free, free])[:, None]} if calibration is not None else None
    return AttentionMap(
        documents=tuple(documents),
        heads=HEADS,
        rows={"mean": both, "last": both},
        calibration=calibrated,  # type: ignore[arg-type]
        blocks=tuple(blocks),
        token_ids=torch.zeros(len(row), dtype=torch.long),
        query_tokens=(),
        cached_blocks=0,
        encoded_tokens=0,
    )


class WordAttender:
    """An attender over `word_map`: one token per word. Notes what it was asked for."""

    def __init__(self, value: Callable[[str], float]) -> None:
        self.value = value
        self.asked: list[tuple[tuple[str, ...], AttentionSpec]] = []

    def attend(self, query: Query, documents: Sequence[Document], spec: AttentionSpec) -> AttentionMap:
        """Attention by word alone."""
        del query
        self.asked.append((tuple(document.id for document in documents), spec))
        return word_map(documents, self.value)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Words."""
        return [len(text.split()) for text in texts]

    def default_heads(self, task: str) -> tuple[Head, ...]:
        """The second head for sentences."""
        return {"sentence": (Head(1, 1),)}[task]

    def choose_heads(self, task: str, given: tuple[Head, ...] | Path | None) -> tuple[Head, ...]:
        """The given heads, or the default ones."""
        assert not isinstance(given, Path)
        return self.default_heads(task) if given is None else tuple(Head(*head) for head in given)
