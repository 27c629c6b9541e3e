"""Splits text into the terms that lexical stages count.

Text is normalised (NFKC, case folded) and cut into words of letters, marks, digits and underscores. Scripts that are
written without spaces have no words a pattern could find: a run of such characters becomes its overlapping character
pairs, and each Han character on its own as well, so that a one-character query still finds the runs that hold it.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any

import regex
from cachetools import LRUCache, cached

from rag.digests import text_digest
from rag.errors import ConfigError
from rag.types import Span

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = regex.compile(r"\w+")
_PARTS = regex.compile(rf"(?P<run>[{_UNSPACED}][{_UNSPACED}\p{{M}}]*)|[[\w]--[{_UNSPACED}]]+", regex.V1)
_HAN = regex.compile(r"\p{Han}")

# Snowball language -> name of bm25s' stop word list; the other languages have none.
_STOP_LISTS = {
    "danish": "STOPWORDS_DANISH",
    "dutch": "STOPWORDS_DUTCH",
    "english": "STOPWORDS_EN",
    "french": "STOPWORDS_FRENCH",
    "german": "STOPWORDS_GERMAN",
    "italian": "STOPWORDS_ITALIAN",
    "norwegian": "STOPWORDS_NORWEGIAN",
    "portuguese": "STOPWORDS_PORTUGUESE",
    "russian": "STOPWORDS_RUSSIAN",
    "spanish": "STOPWORDS_SPANISH",
    "swedish": "STOPWORDS_SWEDISH",
    "turkish": "STOPWORDS_TURKISH",
}

# ISO 639-1 code -> Snowball language, for stages that name the language of texts by its code.
_SNOWBALL = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}

# About 100 bytes each.
_KEPT_TERMS = 200_000

_LOCAL = threading.local()


def _stemmer(language: str) -> Any:
    """This thread's stemmer: PyStemmer's objects keep a cache and must not be shared between threads."""
    import Stemmer

    stemmers: dict[str, Any] = _LOCAL.__dict__.setdefault("stemmers", {})
    if language not in stemmers:
        stemmers[language] = Stemmer.Stemmer(language)
    return stemmers[language]


def snowball_language(code: str) -> str | None:
    """The Snowball language of an ISO 639-1 code, with or without a region ("pt-BR"); None where there is none."""
    return _SNOWBALL.get(code.replace("_", "-").split("-")[0].lower())


def _normalise(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _default_stop_words(language: str) -> frozenset[str]:
    from bm25s import stopwords

    name = _STOP_LISTS.get(language)
    return frozenset(_normalise(word) for word in getattr(stopwords, name)) if name else frozenset()


class Tokeniser:
    """Text to terms: words without stop words, stemmed by Snowball; character pairs for unspaced scripts.

    Args:
        language: a Snowball language ("english", "german", ...); it also chooses the stop words.
        stem: reduce words to their stems.
        stopwords: True for the language's list (empty where there is none), False for none, or the words themselves.
        min_length: shortest word kept, in characters (not applied to unspaced scripts). 1 keeps the "C" of "vitamin C",
            and every initial of every name with it, which costs more than it brings on most collections.

    Safe to call from many threads.

    Raises:
        ConfigError: the language is unknown, ``stopwords`` is a bare string or ``min_length`` is below 1.
    """

    def __init__(
        self,
        language: str = "english",
        stem: bool = True,
        stopwords: bool | Collection[str] = True,
        min_length: int = 2,
    ) -> None:
        import Stemmer

        known = Stemmer.algorithms()
        if language not in known:
            raise ConfigError(f"unknown language {language!r}; accepted: {', '.join(known)}")
        if isinstance(stopwords, str):
            raise ConfigError(f"stopwords must be true, false or a list of words, given {stopwords!r}")
        if min_length < 1:
            raise ConfigError(f"min_length must be at least 1, given {min_length}")
        self.language = language
        self.min_length = min_length
        self.stem = stem
        if isinstance(stopwords, bool):
            self.stop_words = _default_stop_words(language) if stopwords else frozenset()
        else:
            self.stop_words = frozenset(_normalise(word) for word in stopwords)

    def __call__(self, text: str) -> list[str]:
        """The terms of ``text``, in order of appearance, repeats included."""
        terms = [term for term in _terms(_normalise(text), self.min_length) if term not in self.stop_words]
        return list(_stemmer(self.language).stemWords(terms)) if self.stem else terms

    def located(self, text: str) -> list[tuple[str, Span]]:
        """The terms of ``text`` with the characters that each stands on; those of unspaced scripts overlap."""
        found: list[tuple[str, Span]] = []
        for part in _PARTS.finditer(text):
            if part["run"]:
                places = _pair_places(*part.span(), text)
                found += [(_normalise(text[slice(*place)]), place) for place in places]
            else:
                found += [(term, Span(*part.span())) for term in self(part[0])]
        return found


@cache
def term_sets(stemmer: str | None) -> Callable[[str], frozenset[str]]:
    """Text to the set of its terms, for passages that are compared with one question after the other.

    Those of texts seen lately are kept, up to `_KEPT_TERMS` in all. Terms are reduced by the Snowball language
    ``stemmer``; None leaves them as they are, without the stop words of English. Safe to call from many threads.
    """
    tokenise = Tokeniser(stemmer or "english", stem=stemmer is not None)
    kept: LRUCache[bytes, frozenset[str]] = LRUCache(_KEPT_TERMS, getsizeof=lambda terms: 1 + len(terms))
    return cached(kept, key=text_digest, lock=threading.Lock())(lambda text: frozenset(tokenise(text)))


def _terms(text: str, min_length: int) -> Iterable[str]:
    for word in _WORD.findall(text):
        if word.isascii():  # most words of most corpora: nothing to take apart
            if len(word) >= min_length:
                yield word
            continue
        for part in _PARTS.finditer(word):
            if part["run"]:
                yield from _pairs(part["run"])
            elif len(part[0]) >= min_length:
                yield part[0]


def _pairs(run: str) -> Iterable[str]:
    """Overlapping pairs of a run and its Han characters; a run of one character is itself a term."""
    return (run[start:end] for start, end in _pair_places(0, len(run), run))


def _pair_places(start: int, end: int, text: str) -> Iterable[Span]:
    """Where the terms of `_pairs` stand in a run of an unspaced script, ``text[start:end]``."""
    if end - start == 1:
        yield Span(start, end)
        return
    for at in range(start, end):
        if _HAN.match(text[at]):
            yield Span(at, at + 1)
        if at + 1 < end:
            yield Span(at, at + 2)
