from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.compressors.budgeting import Objective, Passages, keep, strengths
from rag.errors import BudgetError
from rag.sentences import sentences, trim

WORD = st.sampled_from(["a", "bb", "ccc", "deep harbour"])
SENTENCE = st.lists(WORD, min_size=1, max_size=4).map(lambda words: " ".join(words).capitalize() + ".")
TEXT = st.lists(SENTENCE, max_size=4).map("  ".join)
OBJECTIVES: list[Objective] = ["mass", "sum", "best-first"]


def lengths(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def passages(*texts: str, size: object = lengths) -> Passages:
    spans = tuple(tuple(trim(t, s) for s in sentences(t)) if t.strip() else () for t in texts)
    return Passages(texts, spans, " … ", size)  # type: ignore[arg-type]


def numbered(source: Passages, values: Sequence[float]) -> np.ndarray:
    return strengths(np.resize(np.array(values, dtype=float), sum(map(len, source.spans))))


@given(st.lists(TEXT, min_size=1, max_size=3), st.lists(st.integers(0, 5), min_size=1), st.integers(1, 120), st.data())
@settings(deadline=None)
def test_never_above_the_limit_and_one_kept(
    texts: list[str], values: list[float], limit: int, data: st.DataObject
) -> None:
    source = passages(*texts)
    strength = numbered(source, values)
    objective = data.draw(st.sampled_from(OBJECTIVES))
    sizes = [end - start for spans in source.spans for start, end in spans]
    if sizes and min(sizes) > limit:
        with pytest.raises(BudgetError, match=f"allows {limit} characters .* has {min(sizes)}:"):
            keep(source, strength, limit, "characters", objective=objective)
        assert keep(source, strength, limit, "characters", objective=objective, min_keep=0) == ()
        return
    kept = keep(source, strength, limit, "characters", objective=objective)
    assert source.measure(kept) <= limit
    assert list(kept) == sorted(set(kept))
    assert bool(kept) == bool(sizes)


@given(st.lists(TEXT, min_size=1, max_size=2), st.lists(st.integers(0, 5), min_size=1), st.integers(9, 90))
@settings(deadline=None)
def test_characters_reach_the_optimum_of_the_joined_text(texts: list[str], values: list[float], limit: int) -> None:
    source = passages(*texts)
    strength = numbered(source, values)
    utilities = strength * [end - start for spans in source.spans for start, end in spans]
    kept = keep(source, strength, limit, "characters", min_keep=0)
    subsets = (c for size in range(len(strength) + 1) for c in combinations(range(len(strength)), size))
    best = max(utilities[list(chosen)].sum() for chosen in subsets if source.measure(chosen) <= limit)
    assert utilities[list(kept)].sum() == pytest.approx(best)


@given(st.lists(TEXT, min_size=1, max_size=3), st.lists(st.integers(0, 5), min_size=1), st.integers(9, 120))
@settings(deadline=None)
def test_best_first_takes_the_best_and_then_each_next_best_that_still_fits(
    texts: list[str], values: list[float], limit: int
) -> None:
    source = passages(*texts)
    strength = numbered(source, values)
    expected: list[int] = []
    for item in np.argsort(-strength, kind="stable").tolist():
        if limit - source.measure(expected) < source.costs().min():  # none fits, whatever it stands beside
            break
        if source.measure([*expected, item]) <= limit:
            expected.append(item)
    kept = keep(source, strength, limit, "characters", objective="best-first", min_keep=0)
    if source.measure(range(len(strength))) > limit:
        assert list(kept) == sorted(expected)


def test_joined_text_that_measures_more_than_its_parts_is_repaired() -> None:
    def costly_when_long(texts: Sequence[str]) -> list[int]:
        """Twice the words from 4 words on: no sum of parts foresees it."""
        return [count * (2 if count >= 4 else 1) for count in (len(text.split()) for text in texts)]

    source = passages("One two. Three four. Five six.", size=costly_when_long)
    kept = keep(source, strengths(np.array([1.0, 3.0, 2.0])), 7, "tokens")
    assert kept == (1,)


def test_objectives_differ_as_described() -> None:
    source = passages("Aaaaaaaaaaaaaaaaaaa. Bbbbbbbbb. Ccccccccc.")
    strength = strengths(np.array([0.5, 1.0, 0.0]))
    chosen = {name: keep(source, strength, 20, "characters", objective=name) for name in OBJECTIVES}
    assert chosen == {"mass": (0,), "sum": (1,), "best-first": (1,)}


def test_strengths_keep_the_order_and_are_positive() -> None:
    values = np.array([-3.0, 2.0, -np.inf, 0.0])
    np.testing.assert_allclose(strengths(values), [0.001, 1.001, -np.inf, 0.601])
    np.testing.assert_allclose(strengths(np.array([4.0, 4.0])), [1.001, 1.001])


def test_where_all_are_excluded_the_strongest_that_fits_is_kept() -> None:
    source = passages("Aaaaaaaaaaaaaaaaaaa. Bbbb. Cccc. Dddd.")
    strength = strengths(np.array([9.0, 1.0, 3.0, 2.0]))
    excluded = np.ones(4, dtype=bool)
    assert keep(source, strength, 10, "characters", excluded=excluded) == (2,)
    assert keep(source, strength, 50, "characters", excluded=excluded) == (0,)
    assert keep(source, strength, 50, "characters", excluded=excluded, min_keep=0) == ()
    assert keep(source, strength, 50, "characters", excluded=np.array([True, False, True, False])) == (1, 3)


def test_document_weight_mixes_the_rank_in() -> None:
    mixed = strengths(np.array([0.0, 1.0]), weight=0.75, documents=np.array([0, 1]))
    np.testing.assert_allclose(mixed, [0.751, 0.626])


@given(st.lists(TEXT, min_size=1, max_size=3), st.lists(st.integers(0, 5), min_size=1), st.integers(1, 120), st.data())
@settings(deadline=None)
def test_required_sentences_are_always_kept_or_the_limit_is_refused_with_both_numbers(
    texts: list[str], values: list[float], limit: int, data: st.DataObject
) -> None:
    source = passages(*texts)
    strength = numbered(source, values)
    objective = data.draw(st.sampled_from(OBJECTIVES))
    required = np.array(data.draw(st.lists(st.booleans(), min_size=len(strength), max_size=len(strength))), dtype=bool)
    needed = source.measure(np.flatnonzero(required).tolist())
    excluded = np.ones(len(strength), dtype=bool)
    for out in (None, excluded):
        if needed > limit:
            with pytest.raises(BudgetError, match=f"allows {limit} characters .* have {needed}: "):
                keep(source, strength, limit, "characters", objective=objective, required=required, excluded=out)
            continue
        kept = keep(
            source, strength, limit, "characters", objective=objective, min_keep=0, required=required, excluded=out
        )
        assert set(np.flatnonzero(required)) <= set(kept)
        assert source.measure(kept) <= limit
        if out is not None:
            assert not set(kept) - set(np.flatnonzero(required))
