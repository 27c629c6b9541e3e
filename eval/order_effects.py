"""Does the order of the documents matter to a reader, and does any way of ordering beat chance?

Two experiments over questions with known answers, both by the log-likelihood of the accepted answer: the document that
holds the answer at every place among the others; and every ordering against random order of the same documents.
Published work finds that reordering often does no better than random in real retrieval; the tests here can say so.
"""

from __future__ import annotations

import hashlib
import json
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rag.assembly import assemble, context_document, uncompressed
from rag.compressors.ordering import Shuffle
from rag.errors import InputError
from rag.eval.answers import findable
from rag.eval.collections import Question
from rag.eval.reader import prompt_for
from rag.eval.record_log import record_log
from rag.eval.significance import Interval, bootstrap_interval, holm, paired_t_test, randomisation_test
from rag.stages import Ordering
from rag.types import Document, Query, ScoredDocument

Likelihood = Callable[[Sequence[str], Sequence[str]], list[float]]
"""Of prompts and answers: the log-likelihood of each answer after its prompt (`LocalReader.log_likelihood`)."""

Rank = Callable[[Query, Sequence[Document]], list[ScoredDocument]]
"""Ranks the documents of a question, best first: what an ordering is given."""

SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class Case:
    """A question whose answer stands in ``gold``, among ``others``."""

    query: Query
    answer: str
    gold: Document
    others: tuple[Document, ...]

    def at(self, place: int) -> tuple[Document, ...]:
        """All documents, gold at ``place`` (from 0)."""
        return (*self.others[:place], self.gold, *self.others[place:])

    def digest(self) -> str:
        """Of all that is read, so that no journal is carried on with other data."""
        documents = [[item.id, item.title, item.text] for item in (self.gold, *self.others)]
        content = json.dumps([self.query.id, self.query.full_text, self.answer, documents])
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def cases(questions: Sequence[Question], documents: int, seed: int = 0) -> list[Case]:
    """The questions that can be used, with so many documents each; the rest is left out (count them).

    Gold is the first supporting document that holds an accepted answer, and the answer is the first it holds. The
    others are the question's further supporting documents, then the rest of its own in random order, then (where it has
    too few) documents of other questions that hold no accepted answer; all in random order.

    Raises:
        InputError: fewer than 2 documents, or not enough in the file to fill up a question.
    """
    if documents < 2:
        raise InputError(f"documents per question must be at least 2, given {documents}")
    corpus = {
        document.id: document for question in questions for document in question.documents if not document.is_empty
    }
    made = []
    for question in questions:
        supporting = [item for item in question.documents if item.id in question.supporting]
        held = [(item, found) for item in supporting if (found := findable(question.answers, [item.text]))]
        if not held:
            continue
        gold, answers = held[0]
        chance = random.Random(f"{seed}-{question.query.id}")
        rest = [item for item in question.documents if item.id not in question.supporting and not item.is_empty]
        chance.shuffle(rest)
        others = [*(item for item in supporting if item.id != gold.id), *rest][: documents - 1]
        if missing := documents - 1 - len(others):
            own = {item.id for item in question.documents}
            strangers = [
                item for name, item in corpus.items() if name not in own and not findable(question.answers, [item.text])
            ]
            if len(strangers) < missing:
                raise InputError(
                    f"question {question.query.id!r}: {documents} documents were asked for, the file has "
                    f"{1 + len(others) + len(strangers)} that it can use"
                )
            others += chance.sample(strangers, missing)
        chance.shuffle(others)
        made.append(Case(question.query, answers[0], gold, tuple(others)))
    return made


@dataclass(frozen=True, slots=True)
class Reading:
    """Log-likelihoods of one question's answer: gold at each place, each ordering, each random order."""

    question: str
    places: tuple[float, ...]
    orderings: Mapping[str, float]
    shuffles: tuple[float, ...]


def read_cases(
    given: Sequence[Case],
    likelihood: Likelihood,
    rank: Rank,
    orderings: Mapping[str, Ordering],
    context: Callable[[Sequence[Document]], str],
    *,
    shuffles: int = 3,
    journal: Path | None = None,
    description: Mapping[str, Any] | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> list[Reading]:
    """Read every question in every order; an order that occurs twice is read once.

    Args:
        given: see `cases`.
        likelihood: the reader.
        rank: ranks the documents, which it gets in random order.
        orderings: by label.
        context: the text for the reader from documents in reading order.
        shuffles: random orders per question; their mean is the control.
        journal: JSONL file that receives every question and from which an interrupted run goes on.
        description: what else decides the figures, for the journal's header.
        step: called with each question's id once it has been read.

    Raises:
        InputError: fewer than 1 random order.
        ArtefactError: the journal belongs to another experiment, or is damaged.
    """
    if shuffles < 1:
        raise InputError(f"shuffles must be at least 1, given {shuffles}")
    header = {**(description or {}), "labels": list(orderings), "shuffles": shuffles}
    readings = []
    with record_log(journal, header) as (done, write):
        known = {record.pop("case"): record for record in done}
        for case in given:
            record = known.get(case.digest())
            if record is None:
                reading = _read(case, likelihood, rank, orderings, context, shuffles)
                write({"case": case.digest(), **asdict(reading)})
            else:
                places, random_orders = tuple(record["places"]), tuple(record["shuffles"])
                reading = Reading(record["question"], places, record["orderings"], random_orders)
            readings.append(reading)
            step(case.query.id)
    return readings


def _read(
    case: Case,
    likelihood: Likelihood,
    rank: Rank,
    orderings: Mapping[str, Ordering],
    context: Callable[[Sequence[Document]], str],
    shuffles: int,
) -> Reading:
    known: dict[tuple[str, ...], float] = {}

    def value(documents: Sequence[Document]) -> float:
        key = tuple(document.id for document in documents)
        if key not in known:
            (known[key],) = likelihood([prompt_for(case.query.full_text, context(documents))], [case.answer])
        return known[key]

    def after(ordering: Ordering) -> float:
        return value([item.document for item in ordering.order(case.query, ranked)])

    ranked = rank(case.query, case.at(random.Random(case.query.id).randrange(len(case.others) + 1)))
    return Reading(
        case.query.id,
        tuple(value(case.at(place)) for place in range(len(case.others) + 1)),
        {name: after(ordering) for name, ordering in orderings.items()},
        tuple(after(Shuffle(seed=seed)) for seed in range(shuffles)),
    )


def reading_context(template: str, separator: str) -> Callable[[Sequence[Document]], str]:
    """The context as a pipeline assembles it from whole documents, with a template of `rag.config.Settings`."""

    def context(documents: Sequence[Document]) -> str:
        return assemble(
            (
                context_document(
                    ScoredDocument(document, 0.0, place + 1),
                    uncompressed(document, 0),
                    index=place,
                    windows=1,
                    scores={},
                )
                for place, document in enumerate(documents)
            ),
            template,
            separator,
        )

    return context


@dataclass(frozen=True, slots=True)
class Effect:
    """One order against its control, over questions: nats per answer token, higher is better.

    ``p_randomisation`` and ``p_t`` are of paired tests, ``p_holm`` the first of them adjusted for the number of
    orders in its experiment, ``interval`` the 95 % bootstrap interval of the difference.
    """

    name: str
    mean: float
    difference: float
    interval: Interval
    p_randomisation: float
    p_t: float
    p_holm: float

    @property
    def verdict(self) -> str:
        """``better`` or ``worse`` than the control, or ``no difference shown``."""
        if self.p_holm >= SIGNIFICANT:
            return "no difference shown"
        return "better" if self.difference > 0 else "worse"


@dataclass(frozen=True, slots=True)
class OrderEffects:
    """Both experiments: each place of gold against the mean over all places, each ordering against random order.

    ``shuffle`` is the mean over questions of the mean over random orders, ``shuffle_spread`` the mean over questions of
    the standard deviation between random orders (0 with one): how much order matters to the reader at all.
    """

    questions: int
    places: tuple[Effect, ...]
    orderings: tuple[Effect, ...]
    shuffle: float
    shuffle_spread: float

    @property
    def summary(self) -> str:
        """One sentence on whether ordering was shown to help."""
        better = [effect.name for effect in self.orderings if effect.verdict == "better"]
        if not better:
            return f"no ordering was shown to be better than random order ({self.questions} questions)"
        return f"better than random order: {', '.join(better)} ({self.questions} questions)"


def effects(readings: Sequence[Reading]) -> OrderEffects:
    """Means, differences and tests of both experiments.

    Raises:
        InputError: no reading.
    """
    if not readings:
        raise InputError("order effects need at least one question whose answer stands in a supporting document")
    control = [statistics.fmean(reading.shuffles) for reading in readings]
    middle = [statistics.fmean(reading.places) for reading in readings]
    places = {
        f"{place + 1}": [reading.places[place] for reading in readings] for place in range(len(readings[0].places))
    }
    orderings = {name: [reading.orderings[name] for reading in readings] for name in readings[0].orderings}
    return OrderEffects(
        questions=len(readings),
        places=_against(places, middle),
        orderings=_against(orderings, control),
        shuffle=statistics.fmean(control),
        shuffle_spread=statistics.fmean(
            statistics.stdev(reading.shuffles) if len(reading.shuffles) > 1 else 0.0 for reading in readings
        ),
    )


def _against(values: Mapping[str, Sequence[float]], control: Sequence[float]) -> tuple[Effect, ...]:
    chances = {name: randomisation_test(of, control) for name, of in values.items()}
    adjusted = holm(chances)
    return tuple(
        Effect(
            name=name,
            mean=statistics.fmean(of),
            difference=statistics.fmean(of) - statistics.fmean(control),
            interval=bootstrap_interval([a - b for a, b in zip(of, control, strict=True)]),
            p_randomisation=chances[name],
            p_t=paired_t_test(of, control),
            p_holm=adjusted[name],
        )
        for name, of in values.items()
    )
