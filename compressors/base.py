"""What all sentence compressors have in common: each of them adds only its scores."""

# No postponed annotations here: the options of a stage are read from the constructor that dataclass makes.
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, Protocol, get_args

import numpy as np

from rag.attention.types import Attender
from rag.budget import Budget
from rag.compressors.budgeting import Floats, Objective, Passages, keep, strengths
from rag.errors import ConfigError, ModelOutputError
from rag.sentences import MAX_WORDS, sentences, trim
from rag.types import CompressedDocument, Document, Query, ScoredDocument, ScoredSentence, Span

ELLIPSIS = " … "


class TokenCounter(Protocol):
    """What a compressor needs to keep to a budget of tokens; every `Attender` is one."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens."""
        ...


@dataclass(frozen=True, eq=False)
class SentenceCompressor(ABC):
    """Keeps the best-scored sentences of all documents together under one budget, in source order.

    Args:
        engine: counts tokens, where `compress` is not given an ``attender``.
        language: of the texts, for sentence splitting (ISO 639-1).
        max_words: a longer sentence without punctuation is cut (see `rag.sentences`).
        objective: what is maximised under the budget (see `rag.compressors.budgeting.Objective`).
        min_keep: 1 keeps at least one sentence of all the documents together; with 0 none may be kept.
        threshold: sentences with a lower score are not kept, budget or not (``min_keep`` goes first).
        document_weight: how much the rank of a document counts beside the score of its sentences, in [0, 1].
        ellipsis: stands where something was left out between two kept sentences; it counts in the budget.

    ===========================================  =======================================================
    given                                        outcome
    ===========================================  =======================================================
    no document                                  no result
    only empty or blank documents                one result each, without sentences
    a budget the whole text fits in              all sentences (above ``threshold``)
    a budget below the shortest sentence         `BudgetError` with both numbers; with min_keep 0 nothing
    a sentence above ``max_words`` words         cut at white space into parts that are kept or dropped
    a sentence that no token stands for          scored like the weakest of all
    ===========================================  =======================================================
    """

    engine: TokenCounter = field(repr=False)
    _: KW_ONLY
    language: str = "en"
    max_words: int = MAX_WORDS
    objective: Objective = "mass"
    min_keep: Literal[0, 1] = 1
    threshold: float | None = None
    document_weight: float = 0.0
    ellipsis: str = ELLIPSIS

    def __post_init__(self) -> None:
        if self.max_words < 1:
            raise ConfigError(f"max_words must be at least 1, given {self.max_words}")
        if self.objective not in get_args(Objective):
            raise ConfigError(f"objective {self.objective!r}; accepted: {', '.join(get_args(Objective))}")
        if self.min_keep not in (0, 1):
            raise ConfigError(f"min_keep must be 0 or 1, given {self.min_keep}")
        if not 0 <= self.document_weight <= 1:
            raise ConfigError(f"document_weight must be from 0 to 1, given {self.document_weight}")

    @abstractmethod
    def score(
        self,
        query: Query,
        documents: Sequence[Document],
        spans: Sequence[Sequence[Span]],
        attender: Attender | None,
    ) -> list[Floats]:
        """One score per sentence of each document, greater is better; ``-inf`` where there is none.

        ``spans`` are the sentences of each document without white space at their ends, none for a blank
        document; ``attender`` is the one given to `compress`.
        """

    def compress(
        self,
        query: Query,
        documents: Sequence[ScoredDocument],
        budget: Budget,
        *,
        attender: Attender | None = None,
    ) -> list[CompressedDocument]:
        """Keep the sentences that matter to ``query``; one result per document, in their order.

        ``budget`` bounds the kept text of all documents together and is never exceeded: tokens are
        counted on each document's joined text. A ratio is of the documents' tokens, without blank ends.

        Raises:
            BudgetError: one sentence must be kept and the budget is below the shortest.
            ModelOutputError: a score is NaN or ``+inf``.
        """
        counter = attender or self.engine
        sources = [item.document for item in documents]
        spans = [
            tuple(trim(document.text, span) for span in sentences(document.text, self.language, self.max_words))
            if document.text.strip()
            else ()
            for document in sources
        ]
        scores = self.score(query, sources, spans, attender) if any(spans) else [np.zeros(0) for _ in sources]
        flat = np.concatenate([np.zeros(0), *scores])
        wrong = np.count_nonzero(~np.isfinite(flat) & ~np.isneginf(flat))
        if wrong:
            raise ModelOutputError(f"{type(self).__name__}: {wrong} sentence scores are not finite numbers")
        scores = _with_floor(scores)
        flat = np.concatenate([np.zeros(0), *scores])
        in_characters = budget.unit == "characters"
        passages = Passages(
            tuple(document.text for document in sources),
            tuple(spans),
            self.ellipsis,
            _lengths if in_characters else counter.count_tokens,
        )
        owner = np.repeat(np.arange(len(spans)), [len(of) for of in spans])
        kept = keep(
            passages,
            strengths(flat, self.document_weight, owner),
            budget.limit(passages.measure(range(len(flat)))),
            "characters" if in_characters else "tokens",
            objective=self.objective,
            min_keep=self.min_keep,
            excluded=None if self.threshold is None else flat < self.threshold,
        )
        return _results(sources, passages, scores, kept, counter)


def _results(
    documents: Sequence[Document],
    passages: Passages,
    scores: Sequence[Floats],
    kept: Sequence[int],
    counter: TokenCounter,
) -> list[CompressedDocument]:
    chosen = passages.kept_spans(kept)
    plain = [CompressedDocument(d, s, (), 0, 0, passages.ellipsis) for d, s in zip(documents, chosen, strict=True)]
    pieces = [d.text[start:end] for d, spans in zip(documents, passages.spans, strict=True) for start, end in spans]
    counts = counter.count_tokens([*(d.text for d in documents), *(item.text for item in plain), *pieces])
    before, after, sizes = counts[: len(plain)], counts[len(plain) : 2 * len(plain)], iter(counts[2 * len(plain) :])
    results = []
    for number, item in enumerate(plain):
        held = set(item.spans)
        sentences_ = tuple(
            ScoredSentence(span, float(score), span in held, next(sizes))
            for span, score in zip(passages.spans[number], scores[number], strict=True)
        )
        results.append(
            CompressedDocument(item.document, item.spans, sentences_, before[number], after[number], item.ellipsis)
        )
    return results


def _with_floor(scores: Sequence[Floats]) -> list[Floats]:
    """Scores with the lowest of all in place of ``-inf``: a caller, and JSON, get finite numbers only."""
    flat = np.concatenate([np.zeros(0), *scores])
    scored = flat[~np.isneginf(flat)]
    floor = scored.min() if len(scored) else 0.0
    return [np.where(np.isneginf(of), floor, of) for of in scores]


def _lengths(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]
