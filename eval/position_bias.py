"""Does an embedding see evidence equally well wherever it stands in a passage?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rag.embedding import TextEmbedder
from rag.errors import InputError
from rag.eval.collections import Question
from rag.eval.significance import Interval, bootstrap_interval, paired_t_test, randomisation_test
from rag.eval.support import find_supporting
from rag.sentences import sentences

PLACES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Where evidence is put: share of the other sentences that stand before it."""


@dataclass(frozen=True, slots=True)
class PositionBias:
    """Cosine of question and passage with the evidence at each of ``places``.

    ``means`` and their 95 % ``intervals`` are over ``questions`` passages. ``first_last`` is the mean cosine with the
    evidence first less that with it last, and the two p values are of that difference: above 0, the model favours
    beginnings.
    """

    places: tuple[float, ...]
    questions: int
    means: tuple[float, ...]
    intervals: tuple[Interval, ...]
    first_last: float
    p_randomisation: float
    p_t_test: float


def measure(
    questions: Sequence[Question],
    embedder: TextEmbedder,
    count_tokens: Callable[[Sequence[str]], list[int]],
    *,
    tokens: int = 200,
    places: Sequence[float] = PLACES,
) -> PositionBias:
    """Put each question's first supporting sentence into a passage of sentences of other questions.

    Args:
        questions: with supporting sentences; those whose first one is not found are left out.
        embedder: gives unit vectors; keep ``tokens`` within its window, or it is the mean of windows that is measured.
        count_tokens: of the embedder's tokenizer or another.
        tokens: of a passage without its evidence, about.
        places: where the evidence is put, each in [0, 1].

    Raises:
        InputError: fewer than 2 places or one outside [0, 1], ``tokens`` below 1, no question to use, no other text.
    """
    if len(places) < 2 or not all(0 <= place <= 1 for place in places):
        raise InputError(f"places must be two or more from 0 to 1, given {list(places)}")
    if tokens < 1:
        raise InputError(f"tokens must be at least 1, given {tokens}")
    usable = [(item, evidence) for item in questions if (evidence := _evidence(item))]
    pool = {item.query.id: _sentences(item) for item in questions}
    if not usable:
        raise InputError("position bias needs questions with a supporting sentence that stands in their documents")
    cosines = np.zeros((len(usable), len(places)))
    for row, (question, evidence) in enumerate(usable):
        own = set(pool[question.query.id])
        others = [text for texts in pool.values() for text in texts if text not in own]
        if not others:
            raise InputError(
                f"question {question.query.id!r}: no other question has any other text to fill passages with"
            )
        filler = _filler(others, count_tokens, tokens, question.query.id)
        passages = [" ".join(_at(filler, evidence, place)) for place in places]
        wanted, *vectors = embedder.encode([question.query.text, *passages])
        cosines[row] = np.stack(vectors) @ wanted
    columns = [column.tolist() for column in cosines.T]
    return PositionBias(
        places=tuple(places),
        questions=len(usable),
        means=tuple(float(np.mean(column)) for column in columns),
        intervals=tuple(bootstrap_interval(column) for column in columns),
        first_last=float(np.mean(cosines[:, 0] - cosines[:, -1])),
        p_randomisation=randomisation_test(columns[0], columns[-1]),
        p_t_test=paired_t_test(columns[0], columns[-1]),
    )


def _evidence(question: Question) -> str:
    found, _ = find_supporting(question)
    texts = {document.id: document.text for document in question.documents}
    return next((texts[name][start:end] for name, spans in found.items() for start, end in spans), "")


def _sentences(question: Question) -> list[str]:
    return [
        document.text[start:end].strip()
        for document in question.documents
        if document.text.strip()
        for start, end in sentences(document.text)
    ]


def _filler(
    others: Sequence[str], count_tokens: Callable[[Sequence[str]], list[int]], tokens: int, seed: str
) -> list[str]:
    """Sentences drawn at random, at least one, until there are enough tokens (repeated where there are too few)."""
    draw = random.Random(seed)
    made: list[str] = []
    left = tokens
    while left > 0:
        made.append(draw.choice(others))
        left -= max(1, count_tokens(made[-1:])[0])
    return made


def _at(filler: Sequence[str], evidence: str, place: float) -> list[str]:
    before = round(place * len(filler))
    return [*filler[:before], evidence, *filler[before:]]
