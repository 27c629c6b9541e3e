"""Questions as hurried people type them: seeded character edits, to see what they cost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from rag.errors import InputError
from rag.eval.collections import Question

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def misspell(text: str, edits: int, seed: str = "") -> str:
    """``text`` with so many edits of single letters: one swapped with its neighbour, left out, doubled or replaced.

    Edits fall into different words as long as there are any, only into words of 4 letters or more and never on a word's
    first letter, as most real typos do. The same text, number and seed give the same result; fewer edits are made where
    there are not enough such words.

    Raises:
        InputError: ``edits`` below 0.
    """
    if edits < 0:
        raise InputError(f"edits must be 0 or more, given {edits}")
    draw = random.Random(f"{seed}\0{edits}\0{text}")
    words = text.split(" ")
    long = [place for place, word in enumerate(words) if sum(map(str.isalpha, word)) >= 4]
    for place in draw.sample(long, min(edits, len(long))):
        words[place] = _edit(words[place], draw)
    return " ".join(words)


def with_typos(questions: Sequence[Question], edits: int) -> list[Question]:
    """The questions with misspelt queries; documents, answers and ids stay."""
    return [
        replace(item, query=replace(item.query, text=misspell(item.query.text, edits, item.query.id)))
        for item in questions
    ]


def _edit(word: str, draw: random.Random) -> str:
    letters = [place for place, letter in enumerate(word) if letter.isalpha()][1:]
    place = draw.choice(letters)
    edited = [
        word[:place] + word[place + 1 :],
        word[:place] + word[place] + word[place:],
        word[:place]
        + draw.choice([letter for letter in _LETTERS if letter != word[place].lower()])
        + word[place + 1 :],
    ]
    if place - 1 in letters and word[place] != word[place - 1]:
        edited.append(word[: place - 1] + word[place] + word[place - 1] + word[place + 1 :])
    return draw.choice(edited)
