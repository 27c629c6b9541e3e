"""Markdown blocks of a text: what a sentence splitter must not cut, and where it must."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from rag.types import Span

Kind = Literal["whole", "heading", "item", "prose"]
"""A block that is one sentence (code, table), a heading (one sentence too), a list item, or running text."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"\s*(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_UNDERLINE = re.compile(r" {0,3}(={3,}|-{3,})\s*$")
_ITEM = re.compile(r"\s*([-*+•◦‣]|\d{1,3}[.)]|[A-Za-z]\))\s+\S")
_ENDS_SENTENCE = re.compile(r"[.!?:;。！？।…][\"'”’»」)\]]*$")


def blocks(text: str) -> Iterator[tuple[Span, Kind]]:
    """Cut ``text`` into blocks that cover it, in time linear in its length.

    - a fenced code block, up to its closing fence; one that is never closed runs to the end of the text
      where it names a language, and is a line of text where it does not (the fence that closed a block
      whose beginning was cut off);
    - a table: a header row over a rule of dashes, or two or more rows that start with a pipe;
    - a heading, with ``#`` or underlined;
    - a list item, with the lines that go on with it;
    - the prose between them.
    """
    lines = _Lines(text)
    position = line = 0
    while line < len(lines.text):
        count, kind = lines.block(line)
        end = position + sum(map(len, lines.text[line : line + count]))
        yield Span(position, end), kind
        position, line = end, line + count


class _Lines:
    """The lines of one text, asked what starts at each of them (a length in lines, 0 for nothing)."""

    def __init__(self, text: str) -> None:
        self.text = [match.group() for match in _LINE.finditer(text)]
        self._fences = [_FENCE.match(line) for line in self.text]
        # The longest bare fence of each kind from a line on: an opening fence that is longer is never closed,
        # which is known without a search (else a text of fences would take quadratic time).
        longest = {"`": 0, "~": 0}
        self._closing: list[dict[str, int]] = [longest] * len(self.text)
        for line in reversed(range(len(self.text))):
            fence = self._fences[line]
            if fence and not fence["info"].strip() and len(fence["mark"]) > longest[fence["mark"][0]]:
                longest = {**longest, fence["mark"][0]: len(fence["mark"])}
            self._closing[line] = longest

    def block(self, line: int) -> tuple[int, Kind]:
        """How many lines the block that starts at ``line`` has, and its kind."""
        if count := self._code(line) or self._table(line):
            return count, "whole"
        if count := self._heading(line):
            return count, "heading"
        end = line + 1
        if _ITEM.match(self.text[line]):
            while end < len(self.text) and self._continues_item(end):
                end += 1
            return end - line, "item"
        while end < len(self.text) and not _ITEM.match(self.text[end]) and not self.special(end):
            end += 1
        return end - line, "prose"

    def special(self, line: int) -> int:
        """The code block, table or heading that starts at ``line``."""
        return self._code(line) or self._table(line) or self._heading(line)

    def _code(self, line: int) -> int:
        opening = self._fences[line]
        if not opening:
            return 0
        mark = opening["mark"]
        rest = len(self.text) - line
        if rest == 1 or len(mark) > self._closing[line + 1][mark[0]]:
            return rest if opening["info"].strip() else 0
        end = line + 1
        while not self._closes(end, mark):
            end += 1
        return end + 1 - line

    def _closes(self, line: int, mark: str) -> bool:
        fence = self._fences[line]
        return fence is not None and fence["mark"].startswith(mark) and not fence["info"].strip()

    def _table(self, line: int) -> int:
        head, *below = self.text[line : line + 2]
        if "|" not in head or not below or "|" not in below[0]:
            return 0
        ruled = "-" in below[0] and not set(below[0]) - set("|:- \t\r\n")
        if not ruled and not (head.lstrip().startswith("|") and below[0].lstrip().startswith("|")):
            return 0
        end = line + 2
        while end < len(self.text) and "|" in self.text[end]:
            end += 1
        return end - line

    def _heading(self, line: int) -> int:
        head, *below = self.text[line : line + 2]
        if _HEADING.match(head):
            return 1
        underlined = bool(below) and _UNDERLINE.match(below[0])
        return 2 if underlined and head.strip() and not _ITEM.match(head) and not _UNDERLINE.match(head) else 0

    def _continues_item(self, line: int) -> bool:
        """True where ``line`` is more of the list item before it: indented, or its sentence goes on."""
        text = self.text[line]
        if not text.strip() or _ITEM.match(text) or self.special(line):
            return False
        return text[0] in " \t" or not _ENDS_SENTENCE.search(self.text[line - 1].rstrip())
