"""BM25 over a corpus in memory (Robertson et al. 1994), in two implementations over the same terms."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag.checks import full_text
from rag.errors import ConfigError
from rag.registry import register
from rag.retrievers.corpus import CorpusRetriever, Hit
from rag.retrievers.selection import top_k
from rag.types import Document, Query
from rag.words import Tokeniser


class LexicalRetriever(CorpusRetriever):
    """BM25 of title and text together.

    Args:
        k1: term frequency saturation, at least 0.
        b: document length normalisation, in [0, 1].
        language: Snowball language of the stemmer and the stop words.
        stem: reduce words to their stems.
        stopwords: True for the language's list, False for none, or the words themselves.
        min_length: shortest word kept, in characters.

    A document that shares no term with the query scores 0; a query without any known term therefore gives the
    corpus in its own order, every score 0. ``trace`` holds the score under the retriever's name.

    Raises:
        ConfigError: a parameter is out of range or the language is unknown.
    """

    no_evidence = 0.0

    def __init__(
        self,
        k1: float = 0.9,
        b: float = 0.4,
        language: str = "english",
        stem: bool = True,
        stopwords: bool | list[str] = True,
        min_length: int = 2,
    ) -> None:
        if not 0 <= k1 < float("inf"):
            raise ConfigError(f"k1 must be a finite number of at least 0, given {k1}")
        if not 0 <= b <= 1:
            raise ConfigError(f"b must be in [0, 1], given {b}")
        self.k1 = k1
        self.b = b
        self.tokeniser = Tokeniser(language, stem, stopwords, min_length)
        self._scorer: Any = None
        self._without_text: NDArray[np.bool_] = np.zeros(0, dtype=bool)

    def _build(self, documents: tuple[Document, ...]) -> None:
        terms = [self.tokeniser(full_text(document)) for document in documents]
        self._without_text = np.array([document.is_empty for document in documents], dtype=bool)
        # Both libraries fail on a corpus without any term; it needs no index, since every score is 0.
        self._scorer = self._make_scorer(terms) if any(terms) else None

    def _search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        return [self._hits(self._scores(self.tokeniser(query.full_text)), k) for query in queries]

    def _scores(self, terms: list[str]) -> NDArray[np.floating]:
        if self._scorer is None or not terms:
            return np.zeros(len(self._without_text))
        scores: NDArray[np.floating] = self._scorer.get_scores(terms)
        return scores

    def _hits(self, scores: NDArray[np.floating], k: int) -> list[Hit]:
        chosen = top_k(scores, k, last=self._without_text)
        return [Hit(int(i), float(scores[i]), {self.name: float(scores[i])}) for i in chosen]

    @abstractmethod
    def _make_scorer(self, terms: list[list[str]]) -> Any:
        """An object whose ``get_scores(query_terms)`` gives one score per document."""


@register("retriever", "bm25")
class BM25(LexicalRetriever):
    """BM25 with Lucene's formula, through bm25s, which keeps the scores of all terms in a sparse matrix (Lù 2024)."""

    name = "bm25"

    def _make_scorer(self, terms: list[list[str]]) -> Any:
        import bm25s

        scorer = bm25s.BM25(method="lucene", k1=self.k1, b=self.b)
        scorer.index(terms, show_progress=False)
        return scorer


@register("retriever", "rank-bm25")
class RankBM25(LexicalRetriever):
    """BM25 in its Okapi form through the rank-bm25 package: a plain reference, slow above some thousand documents.

    Its inverse document frequency is log((N - n + 0.5) / (n + 0.5)), raised to a quarter of the average where it
    is negative, so that its scores differ from `BM25`'s.
    """

    name = "rank-bm25"

    def _make_scorer(self, terms: list[list[str]]) -> Any:
        from rank_bm25 import BM25Okapi

        return BM25Okapi(terms, k1=self.k1, b=self.b)
