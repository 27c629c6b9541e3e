"""Labelled lists for finding heads: candidates of a collection's queries, sentences of questions with evidence."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from rag.attention.detection import Floats, LabelledList, Scorer
from rag.attention.heads import Task
from rag.attention.reading import calibrated_attention
from rag.attention.types import AttentionMap
from rag.compressors.attention_scores import sentence_means
from rag.eval.collections import load_beir, load_qa
from rag.rerankers.scores import head_scores
from rag.retrievers import BM25
from rag.sentences import sentences

T = TypeVar("T")


def _score_documents(answer: AttentionMap, _: LabelledList) -> Floats:
    scores: Floats = head_scores(answer).double().numpy()
    return scores


def _score_sentences(answer: AttentionMap, item: LabelledList) -> Floats:
    return np.concatenate(sentence_means(answer, item.sentences, calibrated_attention(answer).double().numpy()), axis=1)


SCORERS: dict[Task, Scorer] = {"document": _score_documents, "sentence": _score_sentences}
"""How one head's attention scores the items of a list, by task."""


def document_lists(path: Path, split: str, queries: str | None, candidates: int, count: int) -> Iterator[LabelledList]:
    """Labelled candidate lists of the first ``count`` usable queries in a fixed random order."""
    source = load_beir(path, split, queries=queries)
    retriever = BM25().index(source.documents)
    made = 0
    for query in _shuffled(sorted(source.queries, key=lambda query: query.id)):
        (found,) = retriever.retrieve([query], candidates)
        documents = tuple(item.document for item in found)
        gains = tuple(source.qrels[query.id].get(document.id, 0) for document in documents)
        if any(gain > 0 for gain in gains):
            yield LabelledList(query, documents, gains)
            made += 1
        if made == count:
            return


def sentence_lists(path: Path, count: int) -> Iterator[LabelledList]:
    """The documents of a question cut into sentences; relevant is a sentence that overlaps a supporting one."""
    made = 0
    for question in _shuffled(sorted(load_qa(path), key=lambda item: item.query.id)):
        spans = tuple(sentences(document.text) if document.text.strip() else () for document in question.documents)
        marked: dict[str, list[tuple[int, int]]] = {}
        texts = {document.id: document.text for document in question.documents}
        for item in question.supporting_sentences:
            at = texts.get(item.document_id, "").find(item.text.strip())
            if at >= 0:
                marked.setdefault(item.document_id, []).append((at, at + len(item.text.strip())))
        gains = tuple(
            int(any(start < span.end - 1 and end > span.start for start, end in marked.get(document.id, ())))
            for document, of in zip(question.documents, spans, strict=True)
            for span in of
        )
        if any(gains):
            yield LabelledList(question.query, question.documents, gains, spans)
            made += 1
        if made == count:
            return


def _shuffled(items: Sequence[T]) -> list[T]:
    copy = list(items)
    random.Random(1).shuffle(copy)
    return copy
