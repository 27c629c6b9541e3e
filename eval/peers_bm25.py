"""BM25, ours and other packages': seconds to index the documents and to find the best ten of each query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from rag.checks import full_text
from rag.eval.bench_engine import timed
from rag.eval.peers_work import TOP, Rankings, Run, Work
from rag.types import ScoredDocument
from rag.words import Tokeniser

K1, B = 0.9, 0.4


def our_bm25(work: Work) -> Run:
    """`rag.retrievers.BM25`."""
    from rag.retrievers import BM25

    ours = BM25(k1=K1, b=B)
    indexed = ours.index(work.documents)

    def search() -> list[list[ScoredDocument]]:
        return indexed.retrieve(work.queries, TOP)

    found = Rankings(tuple(tuple(item.document.id for item in items) for items in search()))
    return Run(timed(partial(ours.index, work.documents), work.repeats), timed(search, work.repeats), found)


def bm25s(work: Work, same_terms: bool = False) -> Run:
    """With its own tokeniser (English stop words, Snowball stems), or given our terms."""
    import bm25s
    import Stemmer

    ours = Tokeniser() if same_terms else None
    stemmer = Stemmer.Stemmer("english")

    def terms(texts: Sequence[str]) -> Any:
        if ours is not None:
            return [ours(text) for text in texts]
        return bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, show_progress=False)

    def build() -> Any:
        made = bm25s.BM25(method="lucene", k1=K1, b=B)
        made.index(terms(_texts(work)), show_progress=False)
        return made

    index, asked = build(), [query.text for query in work.queries]

    def search() -> Any:
        return index.retrieve(terms(asked), k=min(TOP, len(work.documents)), show_progress=False)[0]

    found = Rankings(tuple(tuple(work.documents[int(place)].id for place in row) for row in search()))
    return Run(timed(build, work.repeats), timed(search, work.repeats), found)


def rank_bm25(work: Work) -> Run:
    """It has no tokeniser: it is given our terms."""
    from rank_bm25 import BM25Okapi

    terms = Tokeniser()

    def build() -> Any:
        return BM25Okapi([terms(text) for text in _texts(work)], k1=K1, b=B)

    index = build()
    names = [document.id for document in work.documents]

    def search() -> list[list[str]]:
        return [index.get_top_n(terms(query.text), names, n=TOP) for query in work.queries]

    found = Rankings(tuple(map(tuple, search())))
    return Run(timed(build, work.repeats), timed(search, work.repeats), found)


def _texts(work: Work) -> list[str]:
    return [full_text(document) for document in work.documents]
