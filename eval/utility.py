"""What a passage is worth to a reader: the likelihood of the answer without it, with another, with it twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag.errors import InputError
from rag.eval.collections import Question
from rag.eval.context import shuffled
from rag.eval.context_reading import whole_context
from rag.eval.reader import prompt_for
from rag.types import Document

Likelihood = Callable[[Sequence[str], Sequence[str]], list[float]]
"""Of prompts and answers: the mean log probability per token of each answer after its prompt."""


@dataclass(frozen=True, slots=True)
class Utility:
    """Gain in the answer's log-likelihood per token that a passage brings; above 0 it helps.

    ``remove``: with all passages less without this one. ``replace``: with all passages less with a passage of another
    question in its place, so that the length of the context changes little. ``duplicate``: with the passage a second
    time behind itself less with all passages once.
    """

    document: str
    supporting: bool
    remove: float
    replace: float
    duplicate: float


def utilities(
    question: Question, others: Sequence[Document], likelihood: Likelihood, *, template: str, separator: str
) -> list[Utility]:
    """The utility of every passage of a question that has text, to a reader that reads all of them.

    Args:
        question: has an accepted answer; its first one is what the reader should say.
        others: passages of other questions, one of which is drawn (seeded by the question and the passage) to replace
        one. likelihood: of the reader, such as `rag.eval.reader.LocalReader.log_likelihood`; 3 readings per passage and
        1 more. template, separator: how a context is assembled.

    Raises:
        InputError: no accepted answer, no passage with text, or none of another question.
    """
    given = [document for document in shuffled(question) if not document.is_empty]
    own = {document.id for document in given}
    spare = [document for document in others if document.id not in own and not document.is_empty]
    if not question.answers or not given or not spare:
        raise InputError(
            f"question {question.query.id!r}: utility needs an accepted answer, a passage with text and one of another "
            f"question; given {len(question.answers)}, {len(given)} and {len(spare)}"
        )
    lists: list[list[Document]] = [given]
    for place, document in enumerate(given):
        before, after = given[:place], given[place + 1 :]
        other = random.Random(f"{question.query.id}\0{document.id}").choice(spare)
        lists += [[*before, *after], [*before, other, *after], [*before, document, document, *after]]
    prompts = [prompt_for(question.query.text, whole_context(items, template, separator)) for items in lists]
    everything, *changed = likelihood(prompts, [question.answers[0]] * len(prompts))
    return [
        Utility(
            document.id,
            document.id in question.supporting,
            everything - changed[3 * place],
            everything - changed[3 * place + 1],
            changed[3 * place + 2] - everything,
        )
        for place, document in enumerate(given)
    ]
