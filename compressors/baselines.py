"""Baselines that look at the words alone, or not at the query at all: what attention must beat."""

import random
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

import numpy as np

from rag.attention.types import Attender
from rag.budget import Budget
from rag.compressors.base import SentenceCompressor, TokenCounter, sentence_texts
from rag.compressors.budgeting import Floats, Objective
from rag.compressors.tokens import named_tokenizer
from rag.embedding import TextEmbedder, best_cosines
from rag.errors import BudgetError, ConfigError
from rag.registry import register
from rag.types import CompressedDocument, Document, Query, ScoredDocument, ScoredSentence, Span
from rag.words import Tokeniser, snowball_language


@register("compressor", "first")
@dataclass(frozen=True, eq=False)
class FirstCompressor(SentenceCompressor):
    """The first sentence of every document, then the second of every document, and so on (LEAD)."""

    objective: Objective = "best-first"

    def score(
        self, query: Query, documents: Sequence[Document], spans: Sequence[Sequence[Span]], attender: Attender | None
    ) -> list[Floats]:
        """Minus the sentence's position in its document."""
        del query, documents, attender
        return [-np.arange(len(of), dtype=np.float64) for of in spans]


@register("compressor", "random")
@dataclass(frozen=True, eq=False)
class RandomCompressor(SentenceCompressor):
    """Sentences drawn at random: the same ones for the same seed, query and documents."""

    objective: Objective = "best-first"
    seed: int = 0

    def score(
        self, query: Query, documents: Sequence[Document], spans: Sequence[Sequence[Span]], attender: Attender | None
    ) -> list[Floats]:
        """Uniform random numbers."""
        del documents, attender
        draw = random.Random(f"{self.seed} {query.full_text}")
        return [np.array([draw.random() for _ in of]) for of in spans]


@register("compressor", "bm25")
@dataclass(frozen=True, eq=False)
class BM25Compressor(SentenceCompressor):
    """Sentences by BM25 (Lucene's variant) over all sentences of the request.

    Args:
        k1, b: BM25's parameters; ``b`` is the weight of a sentence's length.

    The other options are those of `SentenceCompressor`; ``language`` also chooses the stemmer (none where
    Snowball has none).
    """

    _: KW_ONLY
    k1: float = 0.9
    b: float = 0.4

    def score(
        self, query: Query, documents: Sequence[Document], spans: Sequence[Sequence[Span]], attender: Attender | None
    ) -> list[Floats]:
        """BM25 of the query and each sentence; 0 where they share no term, or where one of them has none."""
        del attender
        import bm25s

        stemmed = snowball_language(self.language)
        # Stop words and single letters stay: a sentence has few words to be found by.
        tokenise = Tokeniser(stemmed or "english", stem=stemmed is not None, stopwords=False, min_length=1)
        wanted, *terms = map(tokenise, [query.full_text, *sentence_texts(documents, spans)])
        # bm25s fails on a query, and on a corpus, without any term.
        if not wanted or not any(terms):
            return _per_document(np.zeros(len(terms)), spans)
        index = bm25s.BM25(method="lucene", k1=self.k1, b=self.b)
        index.index(terms, show_progress=False)
        return _per_document(np.asarray(index.get_scores(wanted), dtype=np.float64), spans)


@register("compressor", "dense")
@dataclass(frozen=True, eq=False)
class DenseCompressor(SentenceCompressor):
    """Sentences by the cosine of their embedding and the query's; of a long sentence, its best window counts.

    Args:
        embedder: the embedding model.

    The other options are those of `SentenceCompressor`.
    """

    embedder: TextEmbedder = field(repr=False)

    def score(
        self, query: Query, documents: Sequence[Document], spans: Sequence[Sequence[Span]], attender: Attender | None
    ) -> list[Floats]:
        """Cosine similarity, the greatest over a sentence's windows."""
        del attender
        return _per_document(best_cosines(self.embedder, query.full_text, sentence_texts(documents, spans)), spans)


@register("compressor", "whole")
@dataclass(frozen=True, eq=False)
class WholeCompressor:
    """Keeps documents whole: each in rank order that still fits in the budget, the others not at all.

    Args:
        engine: counts tokens, where `compress` is not given an ``attender``.
        min_keep: 1 refuses a budget in which not even the shortest document fits; with 0 none may be kept.
        tokenizer: the name of the tokenizer that tokens are counted in (see `rag.compressors.tokens`); None for the
            attention model's.

    A document that is left out has no spans. A kept one is one span, from its first visible character to
    its last.
    """

    engine: TokenCounter = field(repr=False)
    _: KW_ONLY
    min_keep: Literal[0, 1] = 1
    tokenizer: str | None = None

    def __post_init__(self) -> None:
        if self.min_keep not in (0, 1):
            raise ConfigError(f"min_keep must be 0 or 1, given {self.min_keep}")

    def compress(
        self,
        query: Query,
        documents: Sequence[ScoredDocument],
        budget: Budget,
        *,
        attender: Attender | None = None,
    ) -> list[CompressedDocument]:
        """Keep whole documents; one result per document, in their order.

        Raises:
            BudgetError: a document must be kept and the budget is below the shortest.
        """
        del query
        counter = named_tokenizer(self.tokenizer) if self.tokenizer else attender or self.engine
        texts = [item.document.text.strip() for item in documents]
        starts = [len(item.document.text) - len(item.document.text.lstrip()) for item in documents]
        tokens = counter.count_tokens(texts) if texts else []
        sizes = [len(text) for text in texts] if budget.unit == "characters" else tokens
        left = limit = budget.limit(sum(sizes))
        results = []
        for item, text, start, size, count in zip(documents, texts, starts, sizes, tokens, strict=True):
            kept = bool(text) and size <= left
            left -= size if kept else 0
            whole = Span(start, start + len(text))
            sentences = (ScoredSentence(whole, item.score, kept, count),) if text else ()
            results.append(
                CompressedDocument(item.document, (whole,) if kept else (), sentences, count, count if kept else 0)
            )
        if self.min_keep and any(texts) and not any(result.spans for result in results):
            shortest = min(size for text, size in zip(texts, sizes, strict=True) if text)
            unit = "characters" if budget.unit == "characters" else "tokens"
            raise BudgetError(
                f"budget allows {limit} {unit} and the shortest of {sum(map(bool, texts))} documents has {shortest}: "
                f"accepted is a budget of {shortest} or more, or a compressor that keeps sentences"
            )
        return results


def _per_document(scores: Floats, spans: Sequence[Sequence[Span]]) -> list[Floats]:
    """Scores of all sentences, split by document."""
    return np.split(scores, np.cumsum([len(of) for of in spans])[:-1])
