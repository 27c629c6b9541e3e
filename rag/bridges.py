"""Bridges: passages that lead on from the best ones of other documents, as questions of several steps need.

The document that answers "Who was the first president of the association that published the journal?" says nothing of
a journal: what leads there is the association's name in the best passage of another document. Passages are sentences,
or whole documents. Both signals start from first scores of the S passages of all documents in turn, and look from one
page to another: documents under the same title are one page, and a page is no bridge to itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import regex
from numpy.typing import NDArray

from rag.standard_scores import Floats, standard_scores
from rag.types import Document, Query, Span
from rag.words import snowball_language, term_sets

NAMING = 5
"""How many of the best passages may name the title of another document, or be pointed to by it."""

_QUALIFIER = regex.compile(r"\([^()]*\)")
Terms = frozenset[str]


@dataclass(frozen=True, slots=True)
class Wording:
    """The terms of a request: its query, its S passages, and for each the title and page it stands under."""

    query: Terms
    passages: tuple[Terms, ...]
    titles: tuple[Terms, ...]
    pages: NDArray[np.int64]

    @classmethod
    def of(
        cls, query: Query, documents: Sequence[Document], spans: Sequence[Sequence[Span]], language: str = "en"
    ) -> "Wording":
        """Terms are stemmed where Snowball knows the language; what stands in brackets in a title is left out."""
        terms = term_sets(snowball_language(language))
        numbers: dict[str, int] = {}
        passages, titles, pages = [], [], []
        for place, (document, of) in enumerate(zip(documents, spans, strict=True)):
            title = document.title.strip().casefold()
            page = numbers.setdefault(title or f"\0{place}", len(numbers))
            heading = terms(_QUALIFIER.sub(" ", document.title))
            for span in of:
                passages.append(terms(document.text[slice(*span)]))
                titles.append(heading)
                pages.append(page)
        return cls(terms(query.full_text), tuple(passages), tuple(titles), np.array(pages, dtype=np.int64))

    @classmethod
    def of_documents(cls, query: Query, documents: Sequence[Document]) -> "Wording":
        """Whole documents as passages."""
        return cls.of(query, documents, [(Span(0, len(document.text)),) for document in documents])

    def rarity(self) -> Callable[[Iterable[str]], float]:
        """Sum over terms of ln((S + 1) / (passages with the term + 0.5)), at least 0 each."""
        count: dict[str, int] = {}
        for of in self.passages:
            for term in of:
                count[term] = count.get(term, 0) + 1
        total = len(self.passages) + 1
        return lambda terms: sum(max(0.0, float(np.log(total / (count.get(term, 0) + 0.5)))) for term in terms)


def shared_words(first: Floats, wording: Wording) -> Floats:
    """Rarity of the words that a passage shares with the best one and that the query does not have, z-scored: (S,).

    Titles count as part of their passages. Passages of the best one's own page share none.
    """
    found = np.zeros(len(first))
    best = int(first.argmax())
    new = (wording.passages[best] | wording.titles[best]) - wording.query
    rarity = wording.rarity()
    for place in np.flatnonzero(wording.pages != wording.pages[best]):
        found[place] = rarity(new & (wording.passages[place] | wording.titles[place]))
    return standard_scores(found)


def named_titles(first: Floats, wording: Wording) -> Floats:
    """How well the `NAMING` best passages lead to the passage by name, (S,): it stands under a title that one of them
    names, or it names the title of one.

    A name counts 1 over the number of passages on other pages that have it, 0 where nothing is named: what many speak
    of ("Oxygen") leads nowhere in particular. A title whose words all stand in the query names nothing. Not z-scored:
    of many passages one that is named would stand as far out as there are passages, and outweigh everything else.
    """
    found = np.zeros(len(first))
    titles = [title - wording.query for title in wording.titles]
    pages = wording.pages.tolist()

    @cache
    def named_by(page: int) -> frozenset[int]:
        """The passages of other pages that have the title of ``page``."""
        title = titles[pages.index(page)]
        others = [other for other, of in enumerate(pages) if of != page] if title else []
        return frozenset(other for other in others if title <= wording.passages[other])

    for best in np.argsort(-first, kind="stable")[:NAMING].tolist():
        for place, page in enumerate(pages):
            if page == pages[best]:
                continue
            # Most titles are named by none of the best passages, and are not looked for in all the others.
            if titles[place] <= wording.passages[best] and best in (by := named_by(page)):
                found[place] = max(found[place], 1 / len(by))
            if place in (by := named_by(pages[best])):
                found[place] = max(found[place], 1 / len(by))
    return found


BRIDGES: Mapping[str, Callable[[Floats, Wording], Floats]] = {
    "shared-words": shared_words,
    "named-titles": named_titles,
}
"""By the name that a probe weighs them under: (first scores, wording) to values (S,), greater is better."""


def bridged(first: Floats, wording: Wording, names: Iterable[str] = tuple(BRIDGES)) -> dict[str, Floats]:
    """The `BRIDGES` of these names that start from first scores (S,)."""
    return {name: BRIDGES[name](first, wording) if len(first) else first for name in names}
