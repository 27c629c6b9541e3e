"""Labelled lists of sentences for a probe: the questions of QA files with the sentences that their answers rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rag.attention.types import AttentionSpec
from rag.bridges import Wording
from rag.compressors.base import sentence_texts
from rag.compressors.sentinel import STATISTICS, following
from rag.embedding import TextEmbedder, best_cosines
from rag.eval.collections import Question
from rag.eval.head_reader import HeadReader
from rag.eval.ltr_data import Watch
from rag.eval.probe_fit import Floats, LabelledItems
from rag.eval.record_log import record_log
from rag.eval.support import auc, find_supporting, label
from rag.standard_scores import standard_scores
from rag.types import Span

SHARE = 0.2
"""The share of a question's tokens that may be kept where recall is measured."""

_DIGITS = 5


@dataclass(frozen=True)
class SentenceReader(HeadReader):
    """Features of sentences: each statistic of each head of the lowest ``layers`` layers, z-scored in the question."""

    statistics = tuple(STATISTICS)

    embedder: TextEmbedder
    embedder_name: str

    def header(self) -> dict[str, Any]:
        """What the values depend on."""
        return {**super().header(), "embedder": self.embedder_name}

    def table(self, question: Question, spans: Sequence[Sequence[Span]]) -> Floats:
        """Features (S, F) of all sentences of the question's documents, in turn."""
        answer = self.engine.attend(question.query, question.documents, AttentionSpec(self.heads, ("mean", "all")))
        return np.concatenate([standard_scores(values(answer, spans, self.heads)) for values in STATISTICS.values()]).T


@dataclass(frozen=True, slots=True)
class SentenceList:
    """A question's sentences: their features and labels, and how many tokens each has."""

    items: LabelledItems
    tokens: Floats


def collect(
    name: str,
    questions: Sequence[Question],
    reader: SentenceReader,
    *,
    cache: Path | None = None,
    watch: Watch = lambda items, _: items,
) -> list[SentenceList]:
    """The feature tables of those questions that have a supporting sentence; with ``cache`` (JSONL) resumable.

    Raises:
        ArtefactError: ``cache`` belongs to other features or another engine, or is damaged.
    """
    lists = []
    with record_log(cache, {"collection": name, **reader.header()}) as (records, write):
        done = {record["question"]: record for record in records}
        for question in watch(questions, f"sentences of {name}"):
            supporting, _ = find_supporting(question)
            labelled = label(question.documents, supporting)
            if not any(item.supporting for item in labelled):
                continue
            spans = [
                tuple(item.span for item in labelled if item.document_id == document.id)
                for document in question.documents
            ]
            pieces = sentence_texts(question.documents, spans)
            record = done.get(question.query.id)
            if record is None:
                record = {
                    "question": question.query.id,
                    "tokens": reader.engine.count_tokens(pieces),
                    "cosines": best_cosines(reader.embedder, question.query.full_text, pieces).round(_DIGITS).tolist(),
                    "values": np.round(reader.table(question, spans), _DIGITS).tolist(),
                }
                write(record)
            gains = np.array([float(item.supporting) for item in labelled])
            values = np.array(record["values"], dtype=np.float64)
            follow = partial(
                following,
                wording=Wording.of(question.query, question.documents, spans),
                sizes=[len(piece) for piece in pieces],
                cosines=np.array(record["cosines"], dtype=np.float64).__getitem__,
            )
            items = LabelledItems(f"{name}/{question.query.id}", values, gains, follow)
            lists.append(SentenceList(items, np.array(record["tokens"], dtype=np.float64)))
    return lists


def recalls(lists: Sequence[SentenceList], scores: Mapping[str, Floats]) -> dict[str, float]:
    """Key of each list to the share of its supporting sentences among the best that fit in `SHARE` of the tokens."""
    return {item.items.key: _recall(scores[item.items.key], item) for item in lists}


def areas(lists: Sequence[SentenceList], scores: Mapping[str, Floats]) -> dict[str, float]:
    """Key of each list to the area under the ROC curve; 1 where every sentence is supporting."""
    found = {item.items.key: auc(scores[item.items.key].tolist(), (item.items.gains > 0).tolist()) for item in lists}
    return {key: 1.0 if area is None else area for key, area in found.items()}


def _recall(scores: Floats, item: SentenceList) -> float:
    left = SHARE * item.tokens.sum()
    relevant = item.items.gains > 0
    kept = 0
    for place in np.argsort(-scores, kind="stable"):
        if item.tokens[place] <= left:
            left -= item.tokens[place]
            kept += bool(relevant[place])
    return kept / int(relevant.sum())
