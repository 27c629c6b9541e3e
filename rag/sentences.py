"""Sentence splitting with exact character spans, aware of Markdown."""

from __future__ import annotations

import re
from itertools import pairwise

from rag.errors import InputError
from rag.markdown import blocks
from rag.types import Span, require_text

MAX_WORDS = 80

# sentencex 1.0.32 panics (a Rust abort, not an exception) on white space outside ASCII and refuses lone
# surrogates; each is swapped for one plain character, so every offset stays what it was.
_LINE_BREAKS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_SPACES = re.compile(r"[^\S \t\r\n]")
_SURROGATES = re.compile("[\ud800-\udfff]")

# Han and Kana are written without spaces: two characters count as one word, and a cut may fall between words.
_HAN_KANA = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_HAN_KANA}]{{1,2}}[^\w\s]*|[^\s{_HAN_KANA}]+")
_PIECE = 4096
_VISIBLE = re.compile(r"\S")


def sentences(text: str, language: str = "en", max_words: int = MAX_WORDS) -> tuple[Span, ...]:
    """Split ``text`` into sentences whose spans cover it exactly: joined, they are the text again.

    White space belongs to the sentence before it (at the start of the text, to the first one), so no
    sentence is blank unless the whole text is. Prose is split by ``sentencex`` with the rules of
    ``language`` (an ISO 639-1 code; a region is ignored, an unknown code gets sentencex's fallback).
    Markdown keeps its shape (`rag.markdown.blocks`): a code block, a table and a heading are
    one sentence each, however long; a list item is one sentence, or is split like prose where it has
    more than ``max_words`` words.

    A sentence of more than ``max_words`` words (a transcript without punctuation) is cut before a word
    into the fewest parts of nearly equal length that are not longer. Words are separated by white space;
    in Han and Kana two characters count as a word. A word is never cut.

    Raises:
        NotTextError: ``text`` is not a string.
        InputError: ``max_words`` is below 1.
    """
    require_text(text, "text to split into sentences")
    if max_words < 1:
        raise InputError(f"max_words must be at least 1, given {max_words}")
    plain = _plain(text)
    starts: list[int] = []
    for block, kind in blocks(plain):
        if kind == "prose" or (kind == "item" and len(_words(plain, block)) > max_words):
            for sentence in _prose(plain, block, language):
                starts.extend(_cuts(plain, sentence, max_words))
        else:
            starts.append(block.start)
    # Each sentence starts at its first visible character; a piece without one is part of the one before it.
    visible = (_VISIBLE.search(plain, start, end) for start, end in pairwise([*starts, len(plain)]))
    borders = [match.start() for match in visible if match]
    return tuple(Span(start, end) for start, end in pairwise([0, *borders[1:], len(plain)]) if start < end)


def headings(text: str) -> tuple[Span, ...]:
    """The Markdown headings of ``text`` in order, each with the line break at its end; each holds one sentence."""
    return tuple(block for block, kind in blocks(_plain(text)) if kind == "heading")


def trim(text: str, span: Span) -> Span:
    """``span`` without the white space at its ends (empty where it holds nothing else)."""
    piece = text[span.start : span.end]
    start = span.start + len(piece) - len(piece.lstrip())
    return Span(start, max(start, span.start + len(piece.rstrip())))


def _plain(text: str) -> str:
    """``text`` as the splitter and the Markdown reader can take it, every character in its place."""
    return _SURROGATES.sub("\ufffd", _SPACES.sub(" ", _LINE_BREAKS.sub("\n", text)))


def _prose(text: str, block: Span, language: str) -> list[Span]:
    """Sentences of a run of prose. Read piece by piece: sentencex takes quadratic time on unclosed quotes."""
    import sentencex

    code = language.replace("_", "-").split("-")[0].lower()
    borders = [block.start]
    position = block.start
    while position < block.end:
        end = min(position + _PIECE, block.end)
        found = [position + item["end_index"] for item in sentencex.get_sentence_boundaries(code, text[position:end])]
        inner = [border for border in found if border < end]
        borders += inner
        # The sentence that a piece ends in is read again, whole, with the next piece.
        position = inner[-1] if inner and end < block.end else end
    return [Span(start, end) for start, end in pairwise([*borders, block.end])]


def _words(text: str, span: Span) -> list[int]:
    """Where each word of ``span`` starts."""
    return [match.start() for match in _WORD.finditer(text, span.start, span.end)]


def _cuts(text: str, span: Span, max_words: int) -> list[int]:
    """Where the parts of one sentence start: its own start, and further ones where it is too long."""
    words = _words(text, span)
    parts = -(-len(words) // max_words)
    return [span.start, *(words[part * len(words) // parts] for part in range(1, parts))]
