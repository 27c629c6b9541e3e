"""Compress the documents of questions with known answers under several budgets, and measure what is kept.

Everything is measured on the question's own documents, all of them together: a ratio of 0.2 allows a fifth of their
tokens, also where a reranker has left only some of them to choose from.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag.budget import Budget
from rag.errors import ArtefactError, BudgetError, ConfigError, InputError
from rag.eval.answers import findable
from rag.eval.collections import Question
from rag.eval.context_systems import OneSystem, Outcome, Ranker, System
from rag.eval.progress import progress_bar
from rag.eval.record_log import Record, record_log
from rag.eval.support import find_supporting, label, separation, support
from rag.types import Document, Span, ranked

if TYPE_CHECKING:
    from rag.attention.types import Attender, AttentionSpec

MEASURES = ("recall", "precision", "recall_weighted", "precision_weighted", "retention", "auc", "ratio", "seconds")
"""What is measured of every question, system and budget.

``recall``, ``precision`` and their weighted forms: of supporting sentences, see `rag.eval.support.Support`; None
where the question has none, or the system wrote a text of its own. ``retention``: 1 where an accepted answer that
stands in the documents stands in what was kept of one (SQuAD's normalisation), else 0; None where none stands there.
``auc``: see `rag.eval.support.separation`; it does not depend on the budget. ``ratio``: tokens kept over tokens of
all documents, counted here and not by the system. ``seconds``: wall time of the compressor's call; documents have
been read before (warm blocks), and with a ranker the attention pass has run.
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """What one system kept of one question's documents under one budget, and its `MEASURES`.

    ``spans`` maps document ids in reading order to what was kept of each; a document that is not there was left out
    by the ranker. ``text`` is what a system wrote that keeps no spans. ``impossible`` says that nothing could be
    kept within the budget (the system raised `BudgetError`).
    """

    collection: str
    question: str
    system: str
    budget: float
    spans: Mapping[str, tuple[Span, ...]]
    tokens_before: int
    tokens_after: int
    impossible: bool
    values: Mapping[str, float | None]
    text: str | None = None

    @property
    def key(self) -> tuple[str, str, str, float]:
        """Collection, question, system and budget."""
        return self.collection, self.question, self.system, self.budget

    def with_values(self, more: Mapping[str, float | None]) -> Kept:
        """The same with further measures."""
        return replace(self, values={**self.values, **more})


def evaluate(
    collections: Mapping[str, Sequence[Question]],
    systems: Sequence[System],
    budgets: Sequence[float],
    engine: Attender,
    *,
    ranker: Ranker | None = None,
    journal: Path | None = None,
    description: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> list[Kept]:
    """Run every system on every question under every budget.

    Args:
        collections: name to questions, ids unique within each.
        systems: labels must differ.
        budgets: shares of the tokens of a question's documents, in (0, 1].
        engine: counts tokens and reads attention.
        ranker: reranks a question's documents and keeps the best; without one all are compressed, in an order drawn
            from the question's id (some files list the needed documents first).
        journal: a JSONL file of finished work to carry on from; at most one question of one system is lost to an
            interrupt. A system or a question that it lacks is added; a system that it has with other options is
            refused.
        description: what else decides the results, as JSON values; part of the journal's header.
        progress: show a progress bar on standard error.

    Raises:
        ConfigError: no system or no budget.
        BudgetError: a budget outside (0, 1].
        InputError: no question, or one whose documents have no text.
        ArtefactError: the journal belongs to another evaluation, or is damaged.
    """
    if not systems or not budgets:
        raise ConfigError("an evaluation needs at least one system and one budget")
    if not any(collections.values()):
        raise InputError("no question to evaluate")
    ratios = [Budget(ratio, "ratio").amount for ratio in dict.fromkeys(budgets)]
    header = {"evaluation": "context", "budgets": ratios, "description": dict(description or {})}
    total = len(systems) * sum(map(len, collections.values()))
    results: list[Kept] = []
    with record_log(journal, header) as (records, write), progress_bar(progress, total) as advance:
        done = {(item["collection"], item["question"], item["system"]): item for item in records}
        for name, questions in collections.items():
            for question in questions:
                data = digest(question)
                here = [system.at(question.query.id) for system in systems]
                missing = [system for system in here if not _is_done(done, name, question, data, system)]
                if missing:
                    case = _Case(name, question, data, engine, ranker, [system.spec for system in missing])
                for system in here:
                    key = (name, question.query.id, system.label)
                    if system in missing:
                        done[key] = case.run(system, ratios)
                        write(done[key])
                    results += _kept(done[key])
                    advance(f"{name} {system.label}")
    return results


def digest(question: Question) -> str:
    """Of all that decides a question's results, so that no journal is carried on with other data."""
    parts = [question.query.text, *question.answers]
    parts += [part for document in question.documents for part in (document.id, document.title, document.text)]
    parts += [part for item in question.supporting_sentences for part in (item.document_id, item.text)]
    joined = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(joined, digest_size=8).hexdigest()


def shuffled(question: Question) -> list[Document]:
    """The question's documents in an order drawn from its id."""
    documents = list(question.documents)
    random.Random(question.query.id).shuffle(documents)
    return documents


def _is_done(
    done: Mapping[tuple[str, str, str], Record],
    collection: str,
    question: Question,
    data: str,
    system: OneSystem,
) -> bool:
    record = done.get((collection, question.query.id, system.label))
    if record is None:
        return False
    for what, here in (("stage", system.identity), ("data", data)):
        if record[what] != here:
            raise ArtefactError(
                f"the journal has results of system {system.label!r} on question {question.query.id!r} with {what} "
                f"{record[what]}, this evaluation has {here}; give the system another label, or another file"
            )
    return True


class _Case:
    """One question on its way through the systems: its documents are read once for all of them, and ranked.

    So each system is timed over warm blocks; with a ranker also over the attention pass that has already run.
    """

    def __init__(
        self,
        collection: str,
        question: Question,
        data: str,
        engine: Attender,
        ranker: Ranker | None,
        specs: Sequence[AttentionSpec | None],
    ) -> None:
        from rag.attention.shared import SharedPass

        documents = shuffled(question)
        self._total = sum(engine.count_tokens([document.text.strip() for document in documents]))
        if not self._total:
            raise InputError(f"{collection}, question {question.query.id!r}: its documents have no text")
        self._collection, self._question, self._data, self._engine = collection, question, data, engine
        self._labelled = label(question.documents, find_supporting(question)[0])
        wanted = [spec for spec in (*specs, ranker.spec if ranker else None) if spec is not None]
        shared = SharedPass(engine, question.query, wanted)
        self._attender: Attender = shared if ranker else engine
        if ranker is not None:
            self._given = ranker.rank(question.query, documents, shared)
        else:
            self._given = ranked(documents, [0.0] * len(documents))
        if wanted:
            read = reduce(lambda one, other: one.union(other), wanted)
            shared.attend(question.query, [item.document for item in self._given], read)

    def run(self, system: OneSystem, ratios: Sequence[float]) -> Record:
        """All budgets of one system, as a record of the journal."""
        return {
            "collection": self._collection,
            "question": self._question.query.id,
            "system": system.label,
            "stage": system.identity,
            "data": self._data,
            "budgets": [self._one(system, ratio) for ratio in ratios],
        }

    def _one(self, system: OneSystem, ratio: float) -> Record:
        limit = max(1, Budget(ratio, "ratio").limit(self._total))
        start = time.perf_counter()
        try:
            outcome, impossible = system.keep(self._question.query, self._given, Budget(limit), self._attender), False
        except BudgetError:
            outcome, impossible = Outcome(documents=()), True
        seconds = time.perf_counter() - start
        after = sum(self._engine.count_tokens(outcome.texts)) if outcome.texts else 0
        return {
            "budget": ratio,
            "spans": {item.document.id: [list(span) for span in item.spans] for item in outcome.documents or ()},
            "tokens_before": self._total,
            "tokens_after": after,
            "impossible": impossible,
            **({"text": "\n\n".join(outcome.texts)} if outcome.documents is None else {}),
            "values": self._measure(outcome) | {"ratio": after / self._total, "seconds": seconds},
        }

    def _measure(self, outcome: Outcome) -> dict[str, float | None]:
        kept = outcome.documents
        measured = None if kept is None else support(self._labelled, {item.document.id: item.spans for item in kept})
        answers = findable(self._question.answers, (document.text for document in self._question.documents))
        return {
            **(asdict(measured) if measured else dict.fromkeys(("recall", "precision", *_WEIGHTED))),
            "retention": float(bool(findable(answers, outcome.texts))) if answers else None,
            "auc": None
            if kept is None
            else separation(self._labelled, {item.document.id: item.sentences for item in kept}),
        }


_WEIGHTED = ("recall_weighted", "precision_weighted")


def _kept(record: Record) -> list[Kept]:
    return [
        Kept(
            collection=record["collection"],
            question=record["question"],
            system=record["system"],
            budget=item["budget"],
            spans={name: tuple(Span(*span) for span in of) for name, of in item["spans"].items()},
            tokens_before=item["tokens_before"],
            tokens_after=item["tokens_after"],
            impossible=item["impossible"],
            values=item["values"],
            text=item.get("text"),
        )
        for item in record["budgets"]
    ]
