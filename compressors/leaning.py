"""Sentences that need another one to be understood: one that opens with a pronoun, one under a heading."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray

from rag.errors import ConfigError
from rag.sentences import headings
from rag.types import Span

OPENERS: dict[str, frozenset[str]] = {
    "en": frozenset(
        {
            *("he", "she", "it", "they", "him", "her", "them", "his", "hers", "its", "their", "theirs"),
            *("this", "that", "these", "those", "such", "both", "neither", "here", "there"),
            *("however", "therefore", "thus", "hence", "moreover", "furthermore", "instead", "otherwise"),
        }
    )
}
"""Per language (ISO 639-1), the words that refer back where a sentence opens with them."""

_WORD = regex.compile(r"[\p{L}\p{M}]+")


class Lean(NamedTuple):
    """A sentence and the one that it leans on, as places in one text."""

    sentence: int
    on: int


def openers(language: str, given: Collection[str] = ()) -> frozenset[str]:
    """The opening words of a language: those ``given``, else those of its table.

    Raises:
        ConfigError: none are given and the language has no table.
    """
    if given:
        return frozenset(word.casefold() for word in given)
    code = language.replace("_", "-").split("-")[0].lower()
    if code not in OPENERS:
        raise ConfigError(
            f"no opening words are known for language {language!r}; known: {', '.join(OPENERS)}: give some"
        )
    return OPENERS[code]


def on_predecessors(text: str, spans: Sequence[Span], words: Collection[str]) -> list[Lean]:
    """The sentences whose first word is one of ``words``, each with the sentence before it."""
    leans = []
    for place in range(1, len(spans)):
        first = _WORD.search(text, spans[place].start, spans[place].end)
        if first and first.group().casefold() in words:
            leans.append(Lean(place, place - 1))
    return leans


def on_headings(text: str, spans: Sequence[Span]) -> list[Lean]:
    """The sentences under a Markdown heading, each with the nearest heading above; headings lean on nothing."""
    starts = iter([*headings(text), Span(len(text) + 1, len(text) + 1)])
    following, heading = next(starts), -1
    leans = []
    for place, span in enumerate(spans):
        if span.end > following.start:
            heading, following = place, next(starts)
        elif heading >= 0:
            leans.append(Lean(place, heading))
    return leans


def lend(scores: NDArray[np.float64], leans: Sequence[Lean]) -> NDArray[np.float64]:
    """Scores (n,) in which a sentence counts as much as the best of those that lean on it, where that is more.

    One step only: what was lent is not lent on, so that a paragraph of "He ... He ..." does not lift itself.
    """
    lifted = scores.copy()
    if leans:
        by, on = np.array(leans).T
        np.maximum.at(lifted, on, scores[by])
    return lifted
