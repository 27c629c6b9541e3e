"""The data that flows between stages: plain frozen values, no behaviour beyond checking themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rag.errors import DuplicateIdsError, EmptyQueryError, InputError, NotTextError, shown


def require_text(value: object, what: str) -> str:
    """Return ``value`` if it is a string, else raise `NotTextError` naming ``what``."""
    if not isinstance(value, str):
        raise NotTextError(f"{what} must be a string, got {type(value).__name__} ({shown(value)})")
    return value


@dataclass(frozen=True, slots=True)
class Document:
    """One passage of a corpus. ``id`` is unique in its corpus; ``text`` may be empty (ranked last).

    ``metadata`` is copied into a plain dict of its own.

    Raises:
        NotTextError: id, text or title is not a string.
        InputError: the metadata is not a mapping.
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        require_text(self.id, "document id")
        require_text(self.text, f"text of document {shown(self.id)}")
        require_text(self.title, f"title of document {shown(self.id)}")
        if not isinstance(self.metadata, Mapping):
            raise InputError(
                f"metadata of document {shown(self.id)} must be a mapping, "
                f"got {type(self.metadata).__name__} ({shown(self.metadata)})"
            )
        object.__setattr__(self, "metadata", dict(self.metadata))

    @property
    def is_empty(self) -> bool:
        """True where neither title nor text holds anything but white space."""
        return not self.text.strip() and not self.title.strip()


@dataclass(frozen=True, slots=True)
class Query:
    """A user's question. ``history`` holds earlier turns, oldest first: a tuple, or a list that becomes one.

    Raises:
        EmptyQueryError: the text is empty or white space.
        NotTextError: text or id is not a string, or the history not a tuple or list of strings.
    """

    text: str
    id: str = ""
    history: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_text(self.text, "query")
        require_text(self.id, "query id")
        if not isinstance(self.history, tuple | list):
            raise NotTextError(
                "query history must be a tuple or list of strings, "
                f"got {type(self.history).__name__} ({shown(self.history)})"
            )
        turns = tuple(require_text(turn, f"turn {i} of the query history") for i, turn in enumerate(self.history))
        object.__setattr__(self, "history", turns)
        if not self.text.strip():
            raise EmptyQueryError(
                f"query is empty (given {shown(self.text)}): a query needs at least one character "
                "that is not white space"
            )

    @property
    def full_text(self) -> str:
        """Earlier turns and the question, oldest first, joined by a space: what every stage reads.

        Each turn weighs as much as the question; an app that wants less of them gives fewer, or rewrites.
        """
        return " ".join((*self.history, self.text))


CORPUS_INDEX = "index"
"""The key of a document's position in the corpus (from 0) in the ``trace`` of a `ScoredDocument`."""

ORDERING_NOTES = "ordering"
"""The key of what an ordering says of its own work (a mapping of plain values) in the ``trace`` of a `ScoredDocument`;
a pipeline puts it into the details of the stage's trace."""


class Span(NamedTuple):
    """Half-open character range ``[start, end)`` into a document's text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """A document with its score and rank (1 is best); ``trace`` holds what each stage noted about it."""

    document: Document
    score: float
    rank: int
    trace: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class ScoredSentence:
    """A sentence of a document: where it lies, how it scored, and whether it was kept."""

    span: Span
    score: float
    kept: bool
    tokens: int


@dataclass(frozen=True, slots=True)
class CompressedDocument:
    """A document and the character spans of its text that are kept (in document order).

    ``tokens_before`` and ``tokens_after`` count the text and the kept text alone; the title is never compressed
    and in neither. Nothing is ever rewritten: ``text`` is made from the spans of ``document.text`` alone, with
    ``ellipsis`` between spans that were not neighbours in the source.
    """

    document: Document
    spans: tuple[Span, ...]
    sentences: tuple[ScoredSentence, ...]
    tokens_before: int
    tokens_after: int
    ellipsis: str = " … "

    @property
    def text(self) -> str:
        """The kept text, with the configured ellipsis where something was left out."""
        return join_spans(self.document.text, self.spans, self.ellipsis)


def join_spans(text: str, spans: Sequence[Span], ellipsis: str) -> str:
    """Concatenate ``text[start:end]`` of each span; spans separated by more than white space get ``ellipsis``."""
    parts: list[str] = []
    for position, (start, end) in enumerate(spans):
        if position:
            gap = text[spans[position - 1].end : start]
            parts.append(ellipsis if gap.strip() else gap)
        parts.append(text[start:end])
    return "".join(parts)


def check_unique_ids(documents: Iterable[Document]) -> None:
    """Raise `DuplicateIdsError` naming every id that occurs more than once."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for document in documents:
        if document.id in seen:
            twice[document.id] = None
        seen.add(document.id)
    if twice:
        names = ", ".join(shown(name) for name in list(twice)[:10])
        more = f" and {len(twice) - 10} more" if len(twice) > 10 else ""
        raise DuplicateIdsError(f"document ids must be unique in a corpus; given more than once: {names}{more}")


def ranked(
    documents: Sequence[Document],
    scores: Sequence[float],
    traces: Sequence[Mapping[str, Any]] | None = None,
) -> list[ScoredDocument]:
    """Sort documents by score, best first; equal scores keep the order they came in."""
    order = sorted(range(len(documents)), key=lambda i: -scores[i])
    return [
        ScoredDocument(documents[i], float(scores[i]), rank, traces[i] if traces else {})
        for rank, i in enumerate(order, start=1)
    ]
