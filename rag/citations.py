"""From a character of the assembled context back to the document it came from: pure functions over spans."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rag.types import CompressedDocument


@dataclass(frozen=True, slots=True)
class Citation:
    """A run of characters that a context took over from a document, unchanged.

    ``context[start:end]`` is ``text[source_start:source_end]`` of the document ``document_id``.
    """

    start: int
    end: int
    document_id: str
    source_start: int
    source_end: int


class Source(NamedTuple):
    """A character of a document: its id, and the offset in its text."""

    document_id: str
    offset: int


def text_citations(kept: CompressedDocument, start: int = 0) -> Iterator[Citation]:
    """The runs of ``kept.text`` that are source text, in order, where that text begins at ``start``.

    Kept neighbours, and the white space between them, are one run. An ellipsis is in none.
    """
    run: Citation | None = None
    for span in kept.spans:
        if run is not None:
            gap = kept.document.text[run.source_end : span.start]
            if not gap.strip():
                run = replace(run, end=run.end + span.end - run.source_end, source_end=span.end)
                continue
            yield run
            start = run.end + len(kept.ellipsis)
        run = Citation(start, start + span.end - span.start, kept.document.id, span.start, span.end)
    if run is not None:
        yield run


def cite(citations: Sequence[Citation], position: int) -> Source | None:
    """Where the character at ``position`` came from; None where it is none of a document's text.

    ``citations`` are ascending and do not overlap.
    """
    found = bisect_right(citations, position, key=lambda run: run.start) - 1
    if found < 0 or position >= citations[found].end:
        return None
    run = citations[found]
    return Source(run.document_id, run.source_start + position - run.start)
