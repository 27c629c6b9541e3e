from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.errors import InputError, NotTextError
from rag.sentences import headings, sentences, trim
from rag.types import Span

# Characters on which splitters stumble, beside all of Unicode (lone surrogates too).
TRICKY = st.text(
    st.sampled_from("aB1.!?\n\r\t \"'“”()[]|`~-#*。！？«»।…\u2028\x85\xa0\u3000\x1c\ud800\U0001f600e\u0301")
)


def split(text: str, language: str = "en", max_words: int = 80) -> list[str]:
    return [text[start:end] for start, end in sentences(text, language, max_words)]


@given(st.one_of(st.text(st.characters()), TRICKY), st.sampled_from(["en", "de", "hi", "ja", "xx"]), st.integers(1, 9))
@settings(deadline=None, max_examples=400)
def test_spans_rebuild_any_text(text: str, language: str, max_words: int) -> None:
    pieces = split(text, language, max_words)
    assert "".join(pieces) == text
    assert all(piece.strip() for piece in pieces) or not text.strip()


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "en",
            "Dr. Smith went to the U.S. Army base at 5 p.m. on Friday. He paid $3.50 (approx.), i.e. a lot! Why?",
            [
                "Dr. Smith went to the U.S. Army base at 5 p.m. on Friday.",
                "He paid $3.50 (approx.), i.e. a lot!",
                "Why?",
            ],
        ),
        (
            "en",
            "The harbour is 14 m deep, see Fig. 3\nand the survey. Next\npart.",
            ["The harbour is 14 m deep, see Fig. 3\nand the survey.", "Next\npart."],
        ),
        ("en", "“Stop. Now.” Then silence 😀😀 fell. End", ["“Stop. Now.”", "Then silence 😀😀 fell.", "End"]),
        (
            "de-AT",
            "Das ist z. B. gut. Herr Dr. Müller kam am 3. Oktober.",
            ["Das ist z. B. gut.", "Herr Dr. Müller kam am 3. Oktober."],
        ),
        (
            "ja",
            "今日は良い天気です。散歩に行きましょう！本当ですか？",
            ["今日は良い天気です。", "散歩に行きましょう！", "本当ですか？"],
        ),
        ("zh", "我来到北京。天气很好！你呢？", ["我来到北京。", "天气很好！", "你呢？"]),
        ("hi", "भारत एक देश है। यह बड़ा है। क्या आप जानते हैं?", ["भारत एक देश है।", "यह बड़ा है।", "क्या आप जानते हैं?"]),
        ("ta", "இது ஒரு வாக்கியம். இது இரண்டாவது.", ["இது ஒரு வாக்கியம்.", "இது இரண்டாவது."]),
        ("ar", "هذه جملة. ما هذا؟ نعم.", ["هذه جملة.", "ما هذا؟", "نعم."]),
    ],
)
def test_prose_of_several_languages(language: str, text: str, expected: list[str]) -> None:
    assert [piece.strip() for piece in split(text, language)] == expected


# Real text: Wikipedia (CC BY-SA 4.0), the README of a Python package, the Universal Declaration of Human Rights, and a
# transcript as speech recognition gives it.
REAL = {
    "abbreviations and initials": (
        "en",
        "J. R. R. Tolkien CBE FRSL (3 January 1892 – 2 September 1973) was an English writer. He served as the "
        "Rawlinson and Bosworth Professor of Anglo-Saxon, i.e. at Pembroke College, from 1925 to 1945. In 1972 "
        "St. Andrews, the U.K. and the U.S. honoured him.",
        3,
    ),
    "Hindi": (
        "hi",
        "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन "
        "प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।",
        2,
    ),
    "Bengali": (
        "bn",
        "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে। তাঁদের বিবেক এবং বুদ্ধি আছে; সুতরাং সকলেরই একে "
        "অপরের প্রতি ভ্রাতৃত্বসুলভ মনোভাব নিয়ে আচরণ করা উচিত।",
        2,
    ),
    "Tamil": (
        "ta",
        "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர். அவர்கள் மதிப்பிலும், உரிமைகளிலும் சமமானவர்கள்.",
        2,
    ),
    "Japanese": (
        "ja",
        "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、"
        "互いに同胞の精神をもって行動しなければならない。",
        2,
    ),
    "Chinese with quotes": ("zh", "他说：“人人生而自由。”众人听了都点头。真的吗？", 3),
    "transcript": (
        "en",
        "so um today we are going to talk about the harbour and how it was dredged and you know why that took so long "
        "because there were three companies involved and none of them talked to each other which is um typical right "
        "so the first one they came in with this enormous dredger from rotterdam and the crew had never worked in a "
        "tidal harbour before and so every six hours they had to stop and wait and then the money ran out",
        2,
    ),
}


@pytest.mark.parametrize(("language", "text", "count"), REAL.values(), ids=REAL)
def test_real_prose(language: str, text: str, count: int) -> None:
    pieces = split(text, language, max_words=60)
    assert "".join(pieces) == text
    assert len(pieces) == count, pieces
    assert all(len(piece.split()) <= 60 for piece in pieces)


README = """\
# bm25s

Fast BM25 in Python. It needs only NumPy, e.g. no Java.

## Usage

1. Install it with `pip install bm25s`. This takes a second.
2. Index a corpus:

```python
import bm25s

corpus = ["a cat is a feline. It purrs."]
retriever = bm25s.BM25(corpus=corpus)
```

| library | queries/s | notes |
|:--------|----------:|-------|
| bm25s   |     573.9 | eager. Sparse |
| rank    |       2.0 | pure Python. |

* Nested lists
  * keep their items. Each is one
  * sentence
"""


def test_a_real_readme() -> None:
    pieces = [piece.strip() for piece in split(README)]
    assert pieces[:3] == ["# bm25s", "Fast BM25 in Python.", "It needs only NumPy, e.g. no Java."]
    assert pieces[4] == "1. Install it with `pip install bm25s`. This takes a second."
    assert [piece.count("\n") for piece in pieces if piece.startswith(("```", "|"))] == [5, 3]
    assert pieces[-3:] == ["* Nested lists", "* keep their items. Each is one", "* sentence"]


def test_headings_are_found_with_their_level_marks() -> None:
    assert [README[start:end] for start, end in headings(README)] == ["# bm25s\n", "## Usage\n"]
    text = "```\n# no\n```\nTitle\n=====\n#hashtag\n# Yes\u2028no"
    assert [text[start:end] for start, end in headings(text)] == ["Title\n=====\n", "# Yes\u2028"]


def test_markdown_keeps_its_shape() -> None:
    parts = [
        "# Install. Then run\n\n",
        "Needs Python 3.11. ",
        "And pip.\n",
        "- make demo. It takes minutes.\n",
        "- make serve, which\n  starts a server\n",
        "1. first item\n\n",
        "| step | what |\n|---|---|\n| 1. get | it. Now |\n\n",
        "```py\nx = 1.0\n\n# Not a heading. At all\n```\n",
        "Limits\n------\n",
        "Done. ",
        "Bye.",
    ]
    assert split("".join(parts)) == parts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Read a|b. Or x || y.", ["Read a|b. ", "Or x || y."]),
        ("Run it.\n```sh\nmake. all\n", ["Run it.\n", "```sh\nmake. all\n"]),
        ("of code.\n```\nNow prose. Ok.", ["of code.\n", "```\nNow prose. ", "Ok."]),
        ("~~~\n```\na. b\n~~~\nEnd.", ["~~~\n```\na. b\n~~~\n", "End."]),
        ("| a. b | c |\n| d. e | f |\nEnd.", ["| a. b | c |\n| d. e | f |\n", "End."]),
    ],
    ids=[
        "pipes in prose",
        "open fence with a language",
        "end of a cut-off fence",
        "fence in a fence",
        "table without rule",
    ],
)
def test_markdown_corner_cases(text: str, expected: list[str]) -> None:
    assert split(text) == expected


def test_a_transcript_is_cut_at_white_space_into_parts_of_nearly_equal_length() -> None:
    words = [f"w{i}" for i in range(3000)]
    pieces = split(" ".join(words))
    assert [word for piece in pieces for word in piece.split()] == words
    lengths = {len(piece.split()) for piece in pieces}
    assert len(pieces) == 38
    assert lengths <= {78, 79}


def test_unspaced_text_is_cut_between_characters() -> None:
    text = "今日は良い天気ですから" * 30
    assert [len(piece) for piece in split(text)] == [110, 110, 110]


def test_a_word_is_never_cut_and_code_is_never_too_long() -> None:
    blob = "x" * 50_000
    assert split(f"Key {blob} ends here.", max_words=1) == ["Key ", f"{blob} ", "ends ", "here."]
    code = "```\n" + "a b. c\n" * 200 + "```"
    assert split(code) == [code]


def test_a_long_list_item_is_split_like_prose() -> None:
    item = "- " + "It holds. " * 30
    assert len(split(item)) == 1
    assert len(split(item, max_words=10)) == 30


def test_blank_and_empty_text() -> None:
    assert sentences("") == ()
    assert sentences(" \n\t ") == (Span(0, 4),)


def test_white_space_belongs_to_the_sentence_before() -> None:
    assert split("  One.  \n\n  Two. ") == ["  One.  \n\n  ", "Two. "]


@given(st.text(), st.integers(0, 9), st.integers(0, 9))
def test_trim_drops_white_space_only(text: str, first: int, second: int) -> None:
    start, end = sorted((min(first, len(text)), min(second, len(text))))
    trimmed = trim(text, Span(start, end))
    assert text[trimmed.start : trimmed.end] == text[start:end].strip()
    assert start <= trimmed.start <= trimmed.end <= max(end, trimmed.start)


@pytest.mark.parametrize("unit", ["“", "`", "'a", "a. ", "```\n", "| ", "- a\n"])
def test_time_stays_linear_on_hostile_text(unit: str) -> None:
    started = time.perf_counter()
    text = unit * (100_000 // len(unit))
    assert "".join(split(text)) == text
    assert time.perf_counter() - started < 20  # quadratic splitting of open quotes took minutes


def test_bad_input() -> None:
    with pytest.raises(NotTextError, match="got bytes"):
        sentences(b"a")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least 1, given 0"):
        sentences("a", max_words=0)
