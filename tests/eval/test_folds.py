from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.errors import InputError
from rag.eval.folds import Fold, fold_of

FIXED = [1, 1, 3, 1]


def test_a_fold_is_fixed_for_ever():
    # Trained probes say which folds they have not seen: these values must not change.
    assert [fold_of(name, 5) for name in ("5a77ec115542992a6e59dff7", "2hop__150763_14904", "q0", "")] == FIXED


@given(st.text(st.characters()), st.integers(1, 50))
def test_every_id_is_in_exactly_one_fold(name, n):
    assert [Fold(i, n).holds(name) for i in range(n)].count(True) == 1
    assert 0 <= fold_of(name, n) < n


def test_folds_are_about_equally_large():
    counts = [0] * 5
    for i in range(1000):
        counts[fold_of(f"question {i}", 5)] += 1
    assert all(150 < count < 250 for count in counts)


def test_split_keeps_order_and_loses_nothing():
    names = [f"q{i}" for i in range(40)]
    inside, outside = Fold(1, 4).split(names, lambda name: name)
    assert sorted([*inside, *outside]) == sorted(names)
    assert inside == [name for name in names if fold_of(name, 4) == 1]
    assert outside == [name for name in names if fold_of(name, 4) != 1]


def test_folds_are_written_as_index_and_count():
    assert Fold.parse("0/5") == (0, 5)
    assert Fold.parse("4/5") == (4, 5)
    for wrong in ("5/5", "1", "1/0", "-1/5", "a/b", "1/5/2", "", "1 of 5"):
        with pytest.raises(InputError, match="accepted: i/n"):
            Fold.parse(wrong)
    with pytest.raises(InputError, match="at least 1, given 0"):
        fold_of("q", 0)
