from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.errors import InputError
from rag.retrievers.fusion import interleave, min_max_sum, reciprocal_ranks, z_sum

rankings = st.lists(st.lists(st.integers(0, 20), unique=True), max_size=5)
score_lists = st.lists(st.dictionaries(st.integers(0, 9), st.integers(-50, 50).map(float)), max_size=4)


def test_reciprocal_ranks_by_hand():
    fused = reciprocal_ranks([["a", "b"], ["b", "c"]], k0=60)
    assert fused == {"a": 1 / 61, "b": math.fsum([1 / 62, 1 / 61]), "c": 1 / 62}


@given(rankings, st.randoms())
def test_reciprocal_ranks_do_not_depend_on_the_order_of_the_rankings(lists, random):
    shuffled = random.sample(lists, len(lists))
    assert reciprocal_ranks(lists) == reciprocal_ranks(shuffled)


@pytest.mark.parametrize("k0", [-1, math.nan])
def test_negative_constant(k0):
    with pytest.raises(InputError, match="at least 0"):
        reciprocal_ranks([["a"]], k0)


def test_z_sum_by_hand():
    fused = z_sum([{"a": 1.0, "b": 3.0}, {"a": 5.0, "b": 7.0, "c": 9.0}])
    step = 2 / math.sqrt(8 / 3)
    assert fused == pytest.approx({"a": -1 - step, "b": 1, "c": -1 + step})


def test_min_max_sum_by_hand():
    assert min_max_sum([{"a": 1.0, "b": 3.0}, {"a": 10.0, "b": 5.0, "c": 0.0}]) == {"a": 1.0, "b": 1.5, "c": 0.0}


@pytest.mark.parametrize("fuse", [z_sum, min_max_sum])
def test_equal_scores_say_nothing(fuse):
    assert fuse([{"a": 2.0, "b": 2.0}, {}]) == {"a": 0.0, "b": 0.0}


@pytest.mark.parametrize("fuse", [z_sum, min_max_sum])
@given(scores=score_lists, factor=st.sampled_from([0.5, 2.0, 8.0]), shift=st.integers(-4, 4))
def test_scale_and_offset_of_a_list_do_not_matter(fuse, scores, factor, shift):
    moved = [{key: factor * value + shift for key, value in member.items()} for member in scores]
    assert fuse(moved) == pytest.approx(fuse(scores), abs=1e-9)


def test_interleave_by_hand():
    assert interleave([["a", "b", "c"], ["b", "d"], []]) == ["a", "b", "c", "d"]


@given(rankings)
def test_interleave_takes_everything_once_and_keeps_the_first_ranking_first(lists):
    merged = interleave(lists)
    assert sorted(merged) == sorted({key for ranking in lists for key in ranking})
    if lists and lists[0]:
        assert merged[0] == lists[0][0]
