from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.compressors.protection import PROTECTED, compiled, protected
from rag.errors import ConfigError, InputError
from rag.sentences import sentences, trim
from rag.types import Document, Span

TEXT = "Rain falls. Paragraph § 12 applies. See § 13. Fog."
SPANS = [trim(TEXT, span) for span in sentences(TEXT)]


def test_patterns_protect_the_sentences_that_hold_a_match() -> None:
    assert protected(Document("a", TEXT), SPANS, compiled(["§ \\d+"])).tolist() == [False, True, True, False]
    assert protected(Document("a", TEXT), SPANS, compiled(["falls. Para"])).tolist() == [True, True, False, False]
    assert protected(Document("a", TEXT), SPANS, compiled(["x*"])).tolist() == [False] * 4
    assert protected(Document("a", ""), [], compiled(["a"])).tolist() == []


@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)))
@settings(deadline=None)
def test_spans_of_the_metadata_protect_the_sentences_that_they_touch(first: int, second: int) -> None:
    start, end = sorted((first, second))
    document = Document("a", TEXT, metadata={PROTECTED: [[start, end]]})
    wanted = [bool(set(range(start, end)) & set(range(*span))) for span in SPANS]
    assert protected(document, SPANS).tolist() == wanted


@pytest.mark.parametrize(
    "given_", ["all", 3, [[0]], [[0, 99]], [[5, 2]], [[-1, 2]], [["0", "2"]], [[True, 2]], {"start": 0}]
)
def test_anything_but_spans_of_the_text_is_refused(given_: object) -> None:
    with pytest.raises(InputError, match=r"protected_spans of document 'a'.*accepted: a list of \[start, end\]"):
        protected(Document("a", TEXT, metadata={PROTECTED: given_}), SPANS)


def test_a_tuple_of_spans_is_fine() -> None:
    document = Document("a", TEXT, metadata={PROTECTED: (Span(0, 3),)})
    assert protected(document, SPANS).tolist() == [True, False, False, False]


def test_a_bad_pattern_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'\(' is not a regular expression"):
        compiled(["("])
