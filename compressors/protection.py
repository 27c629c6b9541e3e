"""What the caller says must never be dropped: patterns, and spans that a document names itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rag.errors import ConfigError, InputError, shown
from rag.types import Document, Span

PROTECTED = "protected_spans"
"""The key of a document's metadata that holds character spans of its text, ``[[start, end], ...]``, to be kept."""


def compiled(patterns: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """The regular expressions of Python's `re`.

    Raises:
        ConfigError: one that is none.
    """
    found = []
    for pattern in patterns:
        try:
            found.append(re.compile(pattern))
        except re.error as error:
            raise ConfigError(f"protect: {shown(pattern)} is not a regular expression: {error}") from None
    return tuple(found)


def protected(document: Document, spans: Sequence[Span], patterns: Sequence[re.Pattern[str]] = ()) -> NDArray[np.bool_]:
    """Which of a document's sentences (n,) share a character with something protected.

    Protected is what a pattern matches in the text, and what the document's metadata names under `PROTECTED`.

    Raises:
        InputError: the metadata holds anything but spans inside the text.
    """
    wanted = [*_named(document), *(Span(*m.span()) for pattern in patterns for m in pattern.finditer(document.text))]
    starts, ends = (np.array([getattr(span, side) for span in spans], dtype=np.int64) for side in ("start", "end"))
    held = np.zeros(len(spans), dtype=bool)
    for start, end in wanted:
        held |= (starts < end) & (start < ends) & (start < end)
    return held


def _named(document: Document) -> Iterator[Span]:
    given = document.metadata.get(PROTECTED, ())
    if not isinstance(given, list | tuple):
        raise _wrong(document, given)
    for item in given:
        pair = isinstance(item, list | tuple) and len(item) == 2 and all(type(number) is int for number in item)
        if not pair or not 0 <= item[0] <= item[1] <= len(document.text):
            raise _wrong(document, item)
        yield Span(*item)


def _wrong(document: Document, given: object) -> InputError:
    return InputError(
        f"{PROTECTED} of document {shown(document.id)}: given {shown(given)}; accepted: a list of [start, end] "
        f"character positions in its text, which has {len(document.text)}"
    )
