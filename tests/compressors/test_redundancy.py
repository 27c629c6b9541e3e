from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.compressors.redundancy import repeats

LONG = "the harbour of kestrel point was dredged by the crown in the spring of that year to a depth of {} metres"


def found(texts: list[str], scores: list[float] | None = None, similarity: float = 0.8) -> list[bool]:
    return repeats(texts, np.array(scores or [0.0] * len(texts)), similarity).tolist()


def test_of_equal_words_the_best_scored_stays_and_the_first_of_equals() -> None:
    texts = ["Fog is common here.", "It rains.", "fog is COMMON here", "It rains!"]
    assert found(texts, [1, 3, 2, 3]) == [True, False, False, True]


def test_a_sentence_with_another_number_is_no_repetition_however_long_the_rest() -> None:
    fourteen, fifteen = LONG.format(14), LONG.format(15)
    assert found([fourteen, fifteen, f"{fourteen} indeed"]) == [False, False, True]


def test_what_is_like_a_repeated_sentence_only_is_kept() -> None:
    """Each differs from its neighbour by a word at each end: the third is unlike the first."""
    words = [f"w{chr(97 + i)}" for i in range(26)]
    chain = [" ".join(words[i : i + 16]) for i in (0, 1, 2)]
    assert found(chain, [3, 2, 1], similarity=0.85) == [False, True, False]


def test_short_and_wordless_texts() -> None:
    assert found(["Yes.", "yes", "?!", "?!", "Yes it", ""]) == [False, True, False, False, False, False]
    assert found([]) == []


@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=5).map(" ".join), max_size=12), st.floats(0.1, 1), st.data())
@settings(deadline=None, max_examples=60)
def test_every_repeated_text_has_a_better_like_one_that_stays(
    texts: list[str], similarity: float, data: st.DataObject
) -> None:
    scores = data.draw(st.lists(st.integers(0, 3), min_size=len(texts), max_size=len(texts)))
    repeated = found(texts, [float(score) for score in scores], similarity)

    def shingles(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))} if words else set()

    def like(a: str, b: str) -> bool:
        both = shingles(a) | shingles(b)
        return bool(both) and len(shingles(a) & shingles(b)) >= similarity * len(both)

    order = sorted(range(len(texts)), key=lambda i: -scores[i])
    for place, item in enumerate(order):
        staying = [other for other in order[:place] if not repeated[other]]
        assert repeated[item] == any(like(texts[item], texts[other]) for other in staying)


@pytest.mark.parametrize("same", [True, False])
def test_time_and_memory_stay_bounded_where_all_sentences_share_a_phrase(same: bool) -> None:
    texts = [f"According to the report of {'x' if same else chr(0x4E00 + i)} all is well." for i in range(3000)]
    started = time.perf_counter()
    repeated = found(texts)
    assert sum(repeated) == (2999 if same else 0)
    assert time.perf_counter() - started < 60
