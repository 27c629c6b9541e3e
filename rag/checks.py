"""Checks of one request's input that need no model; each failure is one typed error with what is accepted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rag.errors import InputError, LimitError, NotTextError, QueryTooLongError, shown
from rag.types import Document, Query

if TYPE_CHECKING:
    from rag.config import LimitSettings


def require_encodable(text: str, what: str) -> None:
    """Refuse text with a lone surrogate: no tokenizer and no JSON response can carry it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotTextError(
            f"{what} is not valid Unicode: lone surrogate {text[error.start]!r} at character {error.start}"
        ) from None


def as_query(query: str | Query) -> Query:
    """A `Query` from text.

    Raises:
        EmptyQueryError: no character other than white space.
        NotTextError: not a string, or not valid Unicode.
    """
    question = query if isinstance(query, Query) else Query(query)
    require_encodable(question.text, "query")
    require_encodable(question.id, "query id")
    for number, turn in enumerate(question.history):
        require_encodable(turn, f"turn {number} of the query history")
    return question


def full_text(document: Document) -> str:
    """Title and text, as one string to count tokens of."""
    return f"{document.title}\n{document.text}" if document.title else document.text


def whole_count(name: str, given: int | None, default: int) -> int:
    """``given``, or the default where it is None; anything but a whole number of at least 1 is an `InputError`."""
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise InputError(f"{name} must be a whole number of at least 1, given {shown(given)}")
    return given


def check_query_tokens(tokens: int, limits: LimitSettings) -> None:
    """Raise `QueryTooLongError` with both numbers."""
    if tokens > limits.query_tokens:
        raise QueryTooLongError(
            f"query has {tokens} tokens; accepted: up to {limits.query_tokens} (limits.query_tokens)"
        )


def check_limits(documents: Sequence[Document], limits: LimitSettings) -> None:
    """Raise `LimitError` with both numbers where a corpus is larger than allowed."""
    check_count(len(documents), limits.documents)
    check_document_sizes(documents, limits)
    total = sum(map(_characters, documents))
    if total > limits.total_characters:
        raise LimitError(
            f"corpus has {total} characters; accepted: up to {limits.total_characters} (limits.total_characters)"
        )


def check_count(documents: int, most: int) -> None:
    """Raise `LimitError` with both numbers where a corpus holds more documents than allowed."""
    if documents > most:
        raise LimitError(f"corpus has {documents} documents; accepted: up to {most} (limits.documents)")


def check_document_sizes(documents: Iterable[Document], limits: LimitSettings) -> None:
    """Raise `LimitError` with both numbers for the first document that no request could hold."""
    for document in documents:
        size = _characters(document)
        if size > limits.document_characters:
            raise LimitError(
                f"document {shown(document.id)} has {size} characters; accepted: up to {limits.document_characters} "
                "(limits.document_characters)"
            )


def check_read_tokens(tokens: int, stage: str, limits: LimitSettings) -> None:
    """Raise `LimitError` with both numbers where a stage would read more with attention than memory is meant for."""
    if tokens > limits.read_tokens:
        raise LimitError(
            f"the documents that the {stage} reads have {tokens} tokens; accepted: up to {limits.read_tokens} "
            "(limits.read_tokens; a smaller retrieve_k or top_n reads fewer)"
        )


def _characters(document: Document) -> int:
    return len(document.title) + len(document.text)
