"""What a pipeline returns: ranked, compressed, ordered context and an account of everything on the way.

Plain frozen dataclasses of plain Python values: ``dataclasses.asdict`` of a result is JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from rag.citations import Citation, Source, cite
from rag.errors import InputError
from rag.types import Span

DropReason = Literal["not_retrieved", "below_top_n", "compressed_away"]


@dataclass(frozen=True, slots=True)
class ContextSentence:
    """One sentence of a kept document: its span in the source text, its score, whether it was kept."""

    span: Span
    score: float
    kept: bool


@dataclass(frozen=True, slots=True)
class ContextDocument:
    """One document of the answer, in the order the reader model should see it.

    ``index`` is the position in the request's corpus; ``rank`` (1 is best) and ``score`` come from the
    last ranking stage; ``spans`` are the kept character ranges of the source text and ``text`` is made
    from them alone. ``windows`` above 1 says the document was longer than the model's window and was
    read in several overlapping parts (``windowed``): nothing of it was skipped. ``empty`` marks a
    document without text, which is ranked last. ``tokens_before`` and ``tokens_after`` count the text and
    the kept text alone, which is what a budget bounds: the title is in neither.
    """

    id: str
    index: int
    rank: int
    score: float
    title: str
    text: str
    spans: tuple[Span, ...]
    sentences: tuple[ContextSentence, ...]
    tokens_before: int
    tokens_after: int
    windows: int
    windowed: bool
    empty: bool
    scores: dict[str, float]
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DroppedDocument:
    """A document of the corpus that is not in the answer, and why."""

    id: str
    index: int
    reason: DropReason
    detail: str
    rank: int | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class StageTrace:
    """What one stage did: its canonical name, candidates and tokens in and out, and its wall time.

    Tokens are of title and text, those of a compressor of the text alone.
    """

    stage: str
    name: str
    seconds: float
    documents_in: int
    documents_out: int
    tokens_in: int | None = None
    tokens_out: int | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Token account, in the attention model's tokenizer. ``saved_tokens`` = corpus - context."""

    query_tokens: int
    corpus_tokens: int
    context_tokens: int
    saved_tokens: int
    encoded_tokens: int
    cached_blocks: int


@dataclass(frozen=True, slots=True)
class ContextResult:
    """The answer to one query: documents in reading order, the assembled context, and the account.

    ``citations`` are the runs of ``context`` that are text of a document, ascending and apart; titles, numbers,
    separators and ellipses are in none.
    """

    query: str
    results: tuple[ContextDocument, ...]
    context: str
    dropped: tuple[DroppedDocument, ...]
    usage: Usage
    trace: tuple[StageTrace, ...]
    seconds: float
    warnings: tuple[str, ...]
    pipeline: dict[str, Any]
    citations: tuple[Citation, ...] = ()

    def cite(self, position: int) -> Source | None:
        """The document and the offset in its text that the character ``context[position]`` comes from.

        None for a character that no document's text holds (a title, a number, a separator, an ellipsis).

        Raises:
            InputError: a position outside the context.
        """
        if not 0 <= position < len(self.context):
            raise InputError(f"position {position} in a context of {len(self.context)} characters")
        return cite(self.citations, position)
