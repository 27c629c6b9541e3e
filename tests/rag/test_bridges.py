"""What leads from the best sentences of one document to those of another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.bridges import Wording, named_titles, shared_words
from rag.sentences import sentences
from rag.types import Document, Query

JOURNAL = Document("j", "It is published by the Society of Tides. It appears each spring.", "Journal of Harbours")
SOCIETY = Document("s", "Ada Brine was its first president. Gulls are its emblem.", "Society of Tides")
LAMP = Document("l", "The keeper lived alone. His dog was called Storm.", "Lighthouse (building)")
QUESTION = Query("Who was the first president of what publishes the Journal of Harbours?")


def wording(*documents: Document, query: Query = QUESTION) -> Wording:
    return Wording.of(query, documents, [sentences(item.text) for item in documents])


def first(*scores: float):
    return np.array(scores, dtype=np.float64)


def test_the_document_that_the_best_sentence_names_is_found():
    words = wording(JOURNAL, SOCIETY, LAMP)
    best = first(2, 0, 0, 0, 0, 0)
    shared = shared_words(best, words)
    assert (shared[2:4] > 0).all()
    assert (shared[[0, 1, 4, 5]] == shared.min()).all()
    # The sentence that names leads there and back: with so few, those of the society are among the best too.
    assert named_titles(best, words).tolist() == [1, 0, 1, 1, 0, 0]


def test_a_sentence_that_names_the_title_of_the_best_one_is_found_too():
    words = wording(SOCIETY, JOURNAL, LAMP)
    assert named_titles(first(2, 0, 0, 0, 0, 0), words).tolist()[2] == 1


def test_a_title_that_the_query_names_leads_nowhere():
    words = wording(JOURNAL, SOCIETY, query=Query("Who was president of the Society of Tides?"))
    assert not named_titles(first(2, 0, 0, 0), words).any()


def test_passages_of_one_page_are_no_bridge_but_documents_without_a_title_are():
    page = [Document(name, "Ada Brine was its first president.", "Society of Tides") for name in "ab"]
    assert not any(signal(first(1, 0), wording(*page)).any() for signal in (shared_words, named_titles))
    loose = [Document("a", "The quay is deep."), Document("b", "A quay is long.")]
    assert shared_words(first(1, 0), wording(*loose))[1] > 0


def test_a_name_that_many_passages_have_leads_less_than_one_that_few_have():
    gas = Document("g", "It is colourless.", "Oxygen")
    story = Document("s", "The cabin was filled with oxygen. Ada Brine went home.", "Cabin")
    brine = Document("b", "She was born in 1871.", "Ada Brine")
    talk = [Document(str(number), "Fire needs oxygen.", f"Talk {number}") for number in range(3)]
    named = named_titles(first(2, 2, 0, 0, 0, 0, 0), wording(story, gas, brine, *talk, query=Query("cabin fire?")))
    assert named[2] == pytest.approx(1 / 4)
    assert named[3] == 1


def test_brackets_in_a_title_say_what_it_is_not_what_it_is_called():
    named = Document("n", "They met at the lighthouse.", "Evening")
    assert named_titles(first(1, 0, 0), wording(named, LAMP)).tolist() == [1, 1, 1]
    assert not named_titles(first(1, 0, 0), wording(named, Document("l", LAMP.text, "Lighthouse keeper"))).any()


def test_rare_words_weigh_more():
    documents = [Document(str(number), text) for number, text in enumerate(
        ("quay zephyr.", "A quay here.", "A zephyr here.", "The quay again.", "Old quay.")
    )]  # fmt: skip
    found = shared_words(first(1, 0, 0, 0, 0), wording(*documents, query=Query("harbour")))
    assert found[2] > found[1] > found[0]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=5), st.text(max_size=20).map("q{}".format), st.data())
def test_any_text_gives_numbers_and_nothing_for_the_best_sentences_page(texts, query, data):
    documents = [Document(str(number), text, text[:5]) for number, text in enumerate(texts)]
    words = wording(*documents, query=Query(query))
    scores = data.draw(st.lists(st.floats(-5, 5), min_size=len(words.passages), max_size=len(words.passages)))
    if scores:
        values = shared_words(first(*scores), words)
        assert np.isfinite(values).all()
        assert values[int(np.argmax(scores))] == values.min()
        named = named_titles(first(*scores), words)
        assert ((named >= 0) & (named <= 1)).all()


def test_the_order_of_the_documents_does_not_matter():
    there, back = wording(JOURNAL, SOCIETY, LAMP), wording(LAMP, SOCIETY, JOURNAL)
    scores = first(6, 1, 5, 2, 4, 3)
    turned = np.array([4, 5, 2, 3, 0, 1])
    for signal in (shared_words, named_titles):
        assert signal(scores, there)[turned] == pytest.approx(signal(scores[turned], back))
