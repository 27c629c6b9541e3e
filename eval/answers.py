"""Answers as SQuAD's evaluation compares them: exact match, F1, and whether a text holds an answer.

Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text", EMNLP 2016: texts are lower-cased,
ASCII punctuation and the articles a, an, the are removed, white space is collapsed. Of several accepted answers the
best counts.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence

from rag.errors import InputError

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NOT_IN_TEXT = frozenset({"", "yes", "no"})


def normalise_answer(text: str) -> str:
    """The form in which answers are compared."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1 where the prediction is one of the accepted answers, else 0; see `f1` for errors."""
    return max(float(normalise_answer(prediction) == normalise_answer(answer)) for answer in _some(answers))


def f1(prediction: str, answers: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of the prediction's words, against the best accepted answer.

    Where either has no word left after normalising, 1 if neither has, else 0.

    Raises:
        InputError: no accepted answer.
    """
    return max(_f1(normalise_answer(prediction).split(), normalise_answer(answer).split()) for answer in _some(answers))


def findable(answers: Sequence[str], texts: Iterable[str]) -> tuple[str, ...]:
    """Those answers that stand in one of the texts: what a compressor can keep or lose.

    "yes" and "no" never count: where they stand in a text, that is not the answer.
    """
    padded = [_padded(text) for text in texts]
    return tuple(
        answer
        for answer in answers
        if normalise_answer(answer) not in _NOT_IN_TEXT and any(_padded(answer) in text for text in padded)
    )


def _padded(text: str) -> str:
    """Normalised with a space at both ends, so that "art" is not found in "party"."""
    return f" {normalise_answer(text)} "


def _f1(predicted: Sequence[str], accepted: Sequence[str]) -> float:
    if not predicted or not accepted:
        return float(list(predicted) == list(accepted))
    shared = (Counter(predicted) & Counter(accepted)).total()
    return 2 * shared / (len(predicted) + len(accepted))


def _some(answers: Sequence[str]) -> Sequence[str]:
    if not answers:
        raise InputError("no accepted answer to compare with")
    return answers
