"""How much do hard distractors hurt a reader? The answer's likelihood over their share among the irrelevant passages.

The first few hard distractors cost most where the curve falls steeply at its left end ("the first drop of ink"): then
removing half of them helps little, and a filter has to catch nearly all.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rag.errors import InputError
from rag.eval.answers import findable
from rag.eval.collections import Question
from rag.retrievers import BM25
from rag.types import Document

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Mixture:
    """The parts of a question's contexts: what answers it, hard distractors (hardest first) and easy ones."""

    question: Question
    answer: str
    needed: tuple[Document, ...]
    hard: tuple[Document, ...]
    easy: tuple[Document, ...]

    def documents(self, share: float) -> list[Document]:
        """The needed documents and as many irrelevant ones for every share, that part of them hard.

        All are in the same random order (seeded by the question) but for those exchanged: a share only puts hard
        distractors in the places of easy ones.

        Raises:
            InputError: a share outside [0, 1].
        """
        if not 0 <= share <= 1:
            raise InputError(f"the share of hard distractors must be from 0 to 1, given {share}")
        count = round(share * len(self.hard))
        places: list[Document] = [*self.needed, *self.hard[:count], *self.easy[count:]]
        random.Random(self.question.query.id).shuffle(places)
        return places


def mixtures(questions: Sequence[Question], distractors: int = 4) -> list[Mixture]:
    """The questions that can be used, with so many hard and so many easy distractors each; the others are left out.

    Hard: the question's own documents that are not marked as needed and hold no accepted answer, by BM25 of the
    question. Easy: documents of other questions that hold none, at random. A question without an answer that stands in
    its needed documents is left out, and one with too few hard distractors.

    Raises:
        InputError: ``distractors`` below 1.
    """
    if distractors < 1:
        raise InputError(f"distractors must be at least 1, given {distractors}")
    corpus = {document.id: document for item in questions for document in item.documents if not document.is_empty}
    made = []
    for question in questions:
        needed = tuple(item for item in question.documents if item.id in question.supporting)
        answers = findable(question.answers, (item.text for item in needed))
        own = {item.id for item in question.documents}

        def harmless(items: Sequence[Document], answers: Sequence[str] = question.answers) -> list[Document]:
            return [item for item in items if not item.is_empty and not findable(answers, [item.title, item.text])]

        hard = harmless([item for item in question.documents if item.id not in question.supporting])
        if not answers or len(hard) < distractors:
            continue
        (ranked,) = BM25().index(hard).retrieve([question.query], distractors)
        easy = harmless([item for item in corpus.values() if item.id not in own])
        if len(easy) < distractors:
            continue
        chosen = random.Random(question.query.id).sample(easy, distractors)
        made.append(Mixture(question, answers[0], needed, tuple(item.document for item in ranked), tuple(chosen)))
    return made
