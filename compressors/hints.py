"""The beginning of an answer, made from a question by its type: no model is asked."""

from __future__ import annotations

import re

FALLBACK = "The answer is"
"""Begins the answer to a question of which no type is known, and to one that is answered by yes or no."""

_BE = "is|are|was|were"
_AUXILIARY = rf"{_BE}|do|does|did|has|have|had|can|could|will|would|should|may|might|must"
_MEASURES = {
    "old": "age",
    "deep": "depth",
    "tall": "height",
    "high": "height",
    "wide": "width",
    "long": "length",
    "far": "distance",
    "fast": "speed",
    "heavy": "weight",
    "big": "size",
    "large": "size",
    "hot": "temperature",
    "cold": "temperature",
    "often": "frequency",
    "much": "amount",
}

# Question (in lower-case patterns, matched without case) to the beginning of its answer; the first that matches counts.
_TEMPLATES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), answer)
    for pattern, answer in (
        (rf"where (?P<be>{_BE}) (?P<what>[^,;]+?)(?: located| situated)?$", "{what} {be} in the"),
        (r"(?:from |to |in )?where\b", "The place is the"),
        (rf"who (?P<be>{_BE}) (?P<what>(?:the|an?|his|her|its) [^,;]+)$", "{what} {be}"),
        (r"whose\b", "It belongs to"),
        (r"(?:by |to |with |from |for )?who(?:m)?\b", "The person is"),
        (r"(?:since |until |by )?when\b", "The date is"),
        (rf"how many (?P<what>[^,;?]+?) (?:{_AUXILIARY})\b", "The number of {what} is"),
        (r"how many\b", "The number is"),
        (r"how long (?:did|does|do|has|have|had|will|would)\b", "The duration is"),
        *((rf"how {word}\b", f"The {measure} is") for word, measure in _MEASURES.items()),
        (r"how\b", "This is done by"),
        (r"why\b", "The reason is"),
        (rf"(?:what|which) (?P<be>{_BE}) (?P<what>(?:the|an?|his|her|its) [^,;]+)$", "{what} {be}"),
        (rf"(?:\w+ )?(?:what|which) (?P<what>[\w'’-]+(?: [\w'’-]+){{0,2}}?) (?:{_AUXILIARY})\b", "The {what} is"),
    )
)


def question_hint(question: str) -> str | None:
    """The beginning of the answer to an English question, cut off before its key word; None where no type is known.

    AttentionRAG (Fang et al., arXiv 2503.10720) has GPT-4o-mini write it ("Where is X?": "X is in the"); the
    templates here are this project's own, by question word:

    ==================================  ===============================
    question                            hint
    ==================================  ===============================
    Where is the harbour?               The harbour is in the
    Where did he live?                  The place is the
    Who is the mayor of Lima?           The mayor of Lima is
    Who wrote it?                       The person is
    When was it built?                  The date is
    How many ships were sunk?           The number of ships is
    How deep is it?                     The depth is
    What is the capital of Peru?        The capital of Peru is
    In which city was he born?          The city is
    Why did it sink?                    The reason is
    Is it deep? (yes or no), all else   None
    ==================================  ===============================

    Only the last sentence of a longer text is read.
    """
    asked = re.split(r"(?<=[.!?;])\s+", question.strip())[-1].rstrip(" ?.!")
    for pattern, answer in _TEMPLATES:
        if match := pattern.match(asked):
            hint = answer.format(**match.groupdict())
            return hint[:1].upper() + hint[1:]
    return None
