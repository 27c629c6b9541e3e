from __future__ import annotations

import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.errors import ConfigError
from rag.words import Tokeniser, snowball_language, term_sets

PLAIN = Tokeniser(stem=False, stopwords=False, min_length=1)


def test_english_words_are_stemmed_and_stop_words_left_out():
    assert Tokeniser()("The cats were RUNNING to harbours") == ["cat", "were", "run", "harbour"]


def test_single_letters_are_kept_on_request_only():
    assert Tokeniser()("vitamin C") == ["vitamin"]
    assert Tokeniser(min_length=1)("vitamin C") == ["vitamin", "c"]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("北京", ["北", "北京", "京"]),
        ("水", ["水"]),
        ("东京tower高", ["东", "东京", "京", "tower", "高"]),
        ("タワー", ["タワ", "ワー"]),
        ("한국어", ["한국", "국어"]),
        ("ไทย", ["ไท", "ทย"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ＦＵＬＬ width", ["full", "width"]),
        ("Straße", ["strasse"]),
        ("cafe\u0301", ["café"]),
        ("snake_case x-ray 3.5", ["snake_case", "x", "ray", "3", "5"]),
        ("", []),
        ("?! …", []),
    ],
)
def test_terms_of_scripts(text, terms):
    assert PLAIN(text) == terms


@settings(deadline=None)
@given(st.text(st.sampled_from("aBé 東京港の。Ж9_-ー\u0301한국ไท"), max_size=20))
def test_located_terms_are_the_terms_with_their_places(text):
    located = PLAIN.located(text)
    assert [term for term, _ in located] == PLAIN(text)
    for term, (start, end) in located:
        assert unicodedata.normalize("NFKC", text[start:end]).casefold() == term


def test_a_word_is_located_with_all_its_letters():
    text = "The harbours' depth"
    assert [(term, text[start:end]) for term, (start, end) in Tokeniser().located(text)] == [
        ("harbour", "harbours"),
        ("depth", "depth"),
    ]


def test_unspaced_scripts_ignore_the_shortest_word_length():
    assert Tokeniser()("水 a b") == ["水"]


def test_language_chooses_stemmer_and_stop_words():
    assert Tokeniser("german")("Die Häuser und der Hafen") == ["haus", "haf"]
    assert Tokeniser("finnish", stem=False)("ja talo") == ["ja", "talo"]  # no stop list for this language


def test_languages_by_code():
    import Stemmer

    from rag.words import _SNOWBALL

    assert set(_SNOWBALL.values()) <= set(Stemmer.algorithms())
    assert [snowball_language(code) for code in ("en", "pt-BR", "DE_at", "ja")] == [
        "english",
        "portuguese",
        "german",
        None,
    ]


def test_own_stop_words_are_normalised_like_the_text():
    assert Tokeniser(stem=False, stopwords=["HARBOUR"])("the Harbour wall") == ["the", "wall"]


@pytest.mark.parametrize(
    ("options", "accepted"),
    [
        ({"language": "klingon"}, "english"),
        ({"stopwords": "the"}, "list"),
        ({"min_length": 0}, "at least 1"),
    ],
)
def test_bad_options_say_what_is_accepted(options, accepted):
    with pytest.raises(ConfigError, match=accepted):
        Tokeniser(**options)


@given(st.text())
def test_any_text_gives_non_empty_terms_without_white_space(text):
    for term in PLAIN(text):
        assert term
        assert not any(character.isspace() for character in term)


@given(st.text(alphabet="北京上海人の水ไทย", min_size=1))
def test_every_part_of_an_unspaced_text_finds_the_whole(text):
    whole = set(PLAIN(text))
    for start in range(len(text)):
        for end in range(start + 2, len(text) + 1):
            assert set(PLAIN(text[start:end])) <= whole


def test_threads_agree_with_the_serial_result():
    tokenise = Tokeniser()
    texts = [f"running harbours {i} quickly flying boats" for i in range(400)]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(tokenise, texts)) == [tokenise(text) for text in texts]


@settings(deadline=None)
@given(st.text(), st.sampled_from(["english", "german", None]))
def test_a_texts_set_of_terms_is_that_of_its_tokeniser_and_made_once(text, stemmer):
    terms = term_sets(stemmer)
    assert terms(text) == frozenset(Tokeniser(stemmer or "english", stem=stemmer is not None)(text))
    assert terms(text) is terms(text)


def test_more_terms_than_are_kept_push_out_the_oldest_and_are_right_all_the_same():
    terms = term_sets("dutch")
    first = terms("de eerste haven")
    for start in (0, 150_000):
        many = " ".join(f"w{number}" for number in range(start, start + 150_000))
        assert len(terms(many)) == 150_000
    again = terms("de eerste haven")
    assert again == first
    assert again is not first
