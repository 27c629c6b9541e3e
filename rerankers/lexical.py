"""How the words of a query occur in its candidates: one matrix of lexical features per list.

The statistics (document frequencies, average length) are those of the candidates alone, so that the same list gives
the same features whatever corpus it came from. D candidates.
"""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex

from rag.standard_scores import standard_scores
from rag.types import Document
from rag.words import Tokeniser

Floats = npt.NDArray[np.float64]

K1, B = 0.9, 0.4
"""BM25's parameters, as the lexical retriever has them."""

NEAR = 8
"""Most terms from the first to the second of an ordered pair."""

_BORDER = ""
"""Stands between title and body: no term is empty, so that no phrase reaches across."""

# Parts of letters and digits, joined as codes, versions, dates and addresses are: "gpt-4", "192.168.0.1", "3/4".
# Letters of scripts without spaces are no part of a code: what stands around a number there is a word of its own.
_PART = r"[[\p{L}\p{N}]--[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]+"
_JOINED = regex.compile(rf"{_PART}(?:[-_./:]{_PART})*", regex.V1)
_DIGIT = regex.compile(r"\p{N}")


class LexicalFeatures(NamedTuple):
    """The columns, each (D,). Shares are in [0, 1], and NaN where the query has nothing that could be found.

    ``bm25_body`` and ``bm25_title``: BM25 of the field among the candidates' fields, z-scored within the list.
    ``coverage`` and ``coverage_title``: share of the query's terms found in the document, in its title.
    ``idf_overlap``: the same weighted by how rare a term is among the candidates.
    ``bigrams``: share of the query's neighbouring terms that are neighbours here, in that order.
    ``ordered_pairs``: share that stand here in that order within `NEAR` terms.
    ``phrase``: the longest run of the query's terms found unbroken, as a share of the query (1: all of it).
    ``identifiers``: share of the query's numbers and codes (anything with a digit) found exactly.
    ``length`` and ``title_length``: log(1 + terms).
    """

    bm25_body: Floats
    bm25_title: Floats
    coverage: Floats
    coverage_title: Floats
    idf_overlap: Floats
    bigrams: Floats
    ordered_pairs: Floats
    phrase: Floats
    identifiers: Floats
    length: Floats
    title_length: Floats


def lexical_features(query: str, documents: Sequence[Document], tokeniser: Tokeniser) -> LexicalFeatures:
    """The lexical features of each document, in the order given.

    A term is what ``tokeniser`` makes of the text (see `rag.words`: stems without stop words, character pairs of
    scripts without spaces). Documents may be empty and titles be missing: what is not there matches nothing.
    """
    wanted = tokeniser(query)
    titles = [tokeniser(document.title) for document in documents]
    bodies = [tokeniser(document.text) for document in documents]
    whole = [[*title, _BORDER, *body] for title, body in zip(titles, bodies, strict=True)]
    terms = dict.fromkeys(wanted)
    rarity = inverse_document_frequencies(terms, whole)
    pairs = dict.fromkeys(pairwise(wanted))
    codes = identifiers(query)
    return LexicalFeatures(
        bm25_body=standard_scores(bm25(wanted, bodies)),
        bm25_title=standard_scores(bm25(wanted, titles)),
        coverage=_column(share(terms, set(words)) for words in whole),
        coverage_title=_column(share(terms, set(words)) for words in titles),
        idf_overlap=_column(share(terms, set(words), rarity) for words in whole),
        bigrams=_column(share(pairs, set(pairwise(words))) for words in whole),
        ordered_pairs=_column(share(pairs, ordered_within(pairs, words, NEAR)) for words in whole),
        phrase=_column(longest_runs(wanted, whole)),
        identifiers=_column(share(codes, identifiers(f"{item.title}\n{item.text}")) for item in documents),
        length=_column(math.log1p(len(words)) for words in bodies),
        title_length=_column(math.log1p(len(words)) for words in titles),
    )


def bm25(query: Sequence[str], fields: Sequence[Sequence[str]]) -> Floats:
    """BM25 (Lucene's formula, through bm25s) of every field among these fields; 0 where nothing matches."""
    import bm25s

    if not query or not any(fields):  # bm25s fails on a corpus without any term
        return np.zeros(len(fields))
    scorer = bm25s.BM25(method="lucene", k1=K1, b=B)
    scorer.index([list(field) for field in fields], show_progress=False)
    return np.asarray(scorer.get_scores(list(query)), dtype=np.float64)


def inverse_document_frequencies(terms: Collection[str], documents: Sequence[Sequence[str]]) -> dict[str, float]:
    """``log(1 + (N - n + 0.5) / (n + 0.5))`` of each term in n of the N documents: above 0, however common."""
    held = [set(words) for words in documents]
    counts = {term: sum(term in words for words in held) for term in terms}
    return {term: math.log1p((len(held) - n + 0.5) / (n + 0.5)) for term, n in counts.items()}


def share(wanted: Collection[object], found: Collection[object], weights: Mapping[str, float] | None = None) -> float:
    """The (weighted) share of ``wanted`` that is in ``found``; NaN where nothing is wanted."""
    if not wanted:
        return math.nan
    if weights is None:
        return sum(item in found for item in wanted) / len(wanted)
    hits = math.fsum(weight for item, weight in weights.items() if item in found)
    return hits / math.fsum(weights.values())


def ordered_within(pairs: Collection[tuple[str, str]], words: Sequence[str], reach: int) -> set[tuple[str, str]]:
    """The pairs whose second term stands behind the first one, at most ``reach`` terms further on."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(word, []).append(place)

    def near(first: str, second: str) -> bool:
        behind = places.get(second, [])
        for place in places.get(first, ()):
            at = bisect_right(behind, place)
            if at < len(behind) and behind[at] - place <= reach:
                return True
        return False

    return {pair for pair in pairs if near(*pair)}


def longest_runs(query: Sequence[str], documents: Sequence[Sequence[str]]) -> list[float]:
    """Per document the longest run of the query's terms found unbroken, over the query's length; NaN without terms."""
    if not query:
        return [math.nan] * len(documents)
    matcher: SequenceMatcher[str] = SequenceMatcher(None, (), query, autojunk=False)
    runs = []
    for words in documents:
        matcher.set_seq1(words)
        runs.append(matcher.find_longest_match().size / len(query))
    return runs


def identifiers(text: str) -> set[str]:
    """Numbers and codes of a text: what has a digit, with its parts ("gpt-4", "1911"), normalised as terms are."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return {word for word in _JOINED.findall(folded) if _DIGIT.search(word)}


def _column(values: Iterable[float]) -> Floats:
    return np.array(list(values), dtype=np.float64)
