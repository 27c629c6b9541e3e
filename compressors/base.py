"""What all sentence compressors have in common: each of them adds only its scores."""

# No postponed annotations here: the options of a stage are read from the constructor that dataclass makes.
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from rag.attention.types import Attender
from rag.budget import Budget
from rag.compressors.budgeting import Floats, Objective, Passages, keep, strengths
from rag.compressors.leaning import lend, on_headings, on_predecessors, openers
from rag.compressors.protection import compiled, protected
from rag.compressors.quality import load_quality
from rag.compressors.redundancy import repeats
from rag.compressors.tokens import named_tokenizer
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
        document_threshold: of documents that were ranked with a lower score no sentence is kept (``min_keep``
            goes first).
        document_weight: how much the rank of a document counts beside the score of its sentences, in [0, 1].
        ellipsis: stands where something was left out between two kept sentences; it counts in the budget.
        tokenizer: the name of the tokenizer that tokens are counted in (see `rag.compressors.tokens`): the reader
            model's; None for the attention model's.
        redundancy: a sentence that shares this share of its word triples with a better one, in any document, is
            not kept (see `rag.compressors.redundancy`); None keeps repetitions.
        headings: a Markdown heading counts as much as the best sentence under it.
        neighbours: the sentence before one that opens with a word that refers back counts as much as that one.
        openers: these words, for a language that `rag.compressors.leaning.OPENERS` does not know.
        protect: regular expressions (Python's); the sentences that hold a match are kept, as are those that a
            document's metadata names as ``protected_spans`` (see `rag.compressors.protection`).
        quality: the file of a `rag.compressors.quality.PassageQuality`; sentences of passages below its threshold
            count half.

    ===========================================  =======================================================
    given                                        outcome
    ===========================================  =======================================================
    no document                                  no result
    only empty or blank documents                one result each, without sentences
    a budget the whole text fits in              all sentences (above the thresholds, without repetitions)
    a budget below the shortest sentence         `BudgetError` with both numbers; with min_keep 0 nothing
    a budget below the protected sentences       `BudgetError` with both numbers
    a sentence above ``max_words`` words         cut at white space into parts that are kept or dropped
    a table or a code block                      one sentence, kept or dropped whole
    a sentence that no token stands for          scored like the weakest of all
    ===========================================  =======================================================

    What a sentence is lent (``headings``, ``neighbours``) decides whether it is kept and is not part of the score that
    it is reported with.
    """

    engine: TokenCounter = field(repr=False)
    _: KW_ONLY
    language: str = "en"
    max_words: int = MAX_WORDS
    objective: Objective = "mass"
    min_keep: Literal[0, 1] = 1
    threshold: float | None = None
    document_threshold: float | None = None
    document_weight: float = 0.0
    ellipsis: str = ELLIPSIS
    tokenizer: str | None = None
    redundancy: float | None = None
    headings: bool = True
    neighbours: bool = False
    openers: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    quality: Path | None = None

    def __post_init__(self) -> None:
        if self.max_words < 1:
            raise ConfigError(f"max_words must be at least 1, given {self.max_words}")
        if self.objective not in get_args(Objective):
            raise ConfigError(f"objective {self.objective!r}; accepted: {', '.join(get_args(Objective))}")
        if self.min_keep not in (0, 1):
            raise ConfigError(f"min_keep must be 0 or 1, given {self.min_keep}")
        if not 0 <= self.document_weight <= 1:
            raise ConfigError(f"document_weight must be from 0 to 1, given {self.document_weight}")
        if self.redundancy is not None and not 0 < self.redundancy <= 1:
            raise ConfigError(f"redundancy must be above 0 and at most 1, given {self.redundancy}")
        if self.neighbours:
            openers(self.language, self.openers)
        compiled(self.protect)
        if self.quality is not None:
            load_quality(self.quality)

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
        counter = named_tokenizer(self.tokenizer) if self.tokenizer else attender or self.engine
        sources = [item.document for item in documents]
        spans = [
            tuple(trim(document.text, span) for span in sentences(document.text, self.language, self.max_words))
            if document.text.strip()
            else ()
            for document in sources
        ]
        scores = self.score(query, sources, spans, attender) if any(spans) else [np.zeros(0) for _ in sources]
        flat = _flat(scores)
        wrong = np.count_nonzero(~np.isfinite(flat) & ~np.isneginf(flat))
        if wrong:
            raise ModelOutputError(f"{type(self).__name__}: {wrong} sentence scores are not finite numbers")
        scores = _with_floor(scores)
        in_characters = budget.unit == "characters"
        passages = Passages(
            tuple(document.text for document in sources),
            tuple(spans),
            self.ellipsis,
            _lengths if in_characters else counter.count_tokens,
        )
        titles, lent = self._lend(sources, spans, scores)
        owner = np.repeat(np.arange(len(spans)), [len(of) for of in spans])
        strength = strengths(lent, self.document_weight, owner)
        if self.quality is not None:
            strength = np.where(load_quality(self.quality).low(sources)[owner], strength / 2, strength)
        patterns = compiled(self.protect)
        kept = keep(
            passages,
            strength,
            budget.limit(passages.measure(range(len(flat)))),
            "characters" if in_characters else "tokens",
            objective=self.objective,
            min_keep=self.min_keep,
            excluded=self._excluded(documents, spans, scores, lent, titles),
            required=_flat([protected(d, of, patterns) for d, of in zip(sources, spans, strict=True)]).astype(bool),
        )
        return _results(sources, passages, scores, kept, counter)

    def _lend(
        self, documents: Sequence[Document], spans: Sequence[Sequence[Span]], scores: Sequence[Floats]
    ) -> tuple[NDArray[np.bool_], Floats]:
        """Of all sentences, which are headings with text below, and the scores with what each is lent."""
        words = openers(self.language, self.openers) if self.neighbours else ()
        titles, lent = [], []
        for document, of, own in zip(documents, spans, scores, strict=True):
            leans = on_headings(document.text, of) if self.headings else []
            titles.append(np.isin(np.arange(len(of)), [lean.on for lean in leans]))
            lent.append(lend(own, [*leans, *on_predecessors(document.text, of, words)]))
        return _flat(titles).astype(bool), _flat(lent)

    def _excluded(
        self,
        documents: Sequence[ScoredDocument],
        spans: Sequence[Sequence[Span]],
        scores: Sequence[Floats],
        lent: Floats,
        titles: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """The sentences that a threshold or a better one of the same words keeps out."""
        out = np.zeros(len(lent), dtype=bool)
        if self.threshold is not None:
            out |= lent < self.threshold
        if self.document_threshold is not None:
            away = [item.score < self.document_threshold for item in documents]
            out |= np.repeat(np.array(away, dtype=bool), [len(of) for of in spans])
        if self.redundancy is not None:
            pieces = sentence_texts([item.document for item in documents], spans)
            out |= repeats(pieces, _flat(scores), self.redundancy) & ~titles
        return out


def sentence_texts(documents: Sequence[Document], spans: Sequence[Sequence[Span]]) -> list[str]:
    """The sentences of all documents in turn."""
    return [document.text[slice(*span)] for document, of in zip(documents, spans, strict=True) for span in of]


def _results(
    documents: Sequence[Document],
    passages: Passages,
    scores: Sequence[Floats],
    kept: Sequence[int],
    counter: TokenCounter,
) -> list[CompressedDocument]:
    chosen = passages.kept_spans(kept)
    plain = [CompressedDocument(d, s, (), 0, 0, passages.ellipsis) for d, s in zip(documents, chosen, strict=True)]
    pieces = sentence_texts(documents, passages.spans)
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
    flat = _flat(scores)
    scored = flat[~np.isneginf(flat)]
    floor = scored.min() if len(scored) else 0.0
    return [np.where(np.isneginf(of), floor, of) for of in scores]


def _lengths(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def _flat(parts: Sequence[NDArray[Any]]) -> Floats:
    """The numbers of all documents behind each other."""
    return np.concatenate([np.zeros(0), *parts])
