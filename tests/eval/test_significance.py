from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rag.errors import InputError
from rag.eval.significance import bootstrap_interval, holm, paired_t_test, randomisation_test

value = st.integers(0, 100).map(lambda i: i / 100)
pairs = st.lists(st.tuples(value, value), min_size=1, max_size=9)


def exact(differences):
    """The randomisation test with every assignment of signs."""
    observed = abs(sum(differences)) - 1e-9
    sums = [abs(sum(signed)) for signed in itertools.product(*((d, -d) for d in differences))]
    return sum(total >= observed for total in sums) / len(sums)


@settings(max_examples=25, deadline=None)
@given(pairs)
def test_randomisation_approaches_the_exact_test(data):
    a, b = zip(*data, strict=True)
    expected = exact([x - y for x, y in data])
    assert randomisation_test(a, b, resamples=20_000) == pytest.approx(expected, abs=0.02)


@settings(max_examples=25, deadline=None)
@given(pairs)
def test_randomisation_is_symmetric_reproducible_and_never_zero(data):
    a, b = zip(*data, strict=True)
    p = randomisation_test(a, b, resamples=500)
    assert 0 < p <= 1
    assert p == randomisation_test(b, a, resamples=500) == randomisation_test(a, b, resamples=500)


def test_randomisation_finds_a_clear_difference_and_none_where_there_is_none():
    better = [0.5 + i / 1000 for i in range(100)]
    assert randomisation_test(better, [0.4] * 100) == 1 / 100_001
    assert randomisation_test(better, better) == 1


@given(st.lists(st.tuples(value, value), min_size=3, max_size=30))
def test_t_test_equals_scipys(data):
    a, b = zip(*data, strict=True)
    differences = [x - y for x, y in data]
    if max(differences) - min(differences) > 1e-6:
        assert paired_t_test(a, b) == pytest.approx(stats.ttest_rel(a, b).pvalue)


def test_t_test_without_spread():
    assert paired_t_test([0.5, 0.25], [0.5, 0.25]) == 1
    assert paired_t_test([0.5], [0.25]) == 1
    assert paired_t_test([1.0, 1.0], [0.5, 0.5]) == 0


def test_holm_by_hand():
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert holm({}) == {}


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=8))
def test_holm_lies_between_the_raw_value_and_bonferronis_and_keeps_the_order(p_values):
    adjusted = holm(p_values)
    for name, p in p_values.items():
        assert p <= adjusted[name] <= min(1, p * len(p_values)) + 1e-12
    raw_order = sorted(p_values, key=p_values.__getitem__)
    assert [adjusted[name] for name in raw_order] == sorted(adjusted.values())


@given(st.lists(value, min_size=1, max_size=40))
def test_bootstrap_interval_lies_within_the_values(values):
    low, high = bootstrap_interval(values, resamples=200)
    assert min(values) - 1e-12 <= low <= high <= max(values) + 1e-12


def test_bootstrap_interval_agrees_with_the_normal_one():
    values = [(i * 37 % 101) / 100 for i in range(101)]
    low, high = bootstrap_interval(values)
    half = 1.96 * stats.sem(values)
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half), abs=0.01)


@pytest.mark.parametrize("test", [randomisation_test, paired_t_test])
def test_bad_pairs(test):
    with pytest.raises(InputError, match="given 2 and 1"):
        test([0.1, 0.2], [0.1])
    with pytest.raises(InputError, match="no values"):
        test([], [])
    with pytest.raises(InputError, match="finite"):
        test([math.nan], [0.1])


def test_bad_settings():
    with pytest.raises(InputError, match="between 0 and 1, given 95"):
        bootstrap_interval([0.1], confidence=95)
    with pytest.raises(InputError, match="at least 1, given 0"):
        randomisation_test([0.1], [0.2], resamples=0)
    with pytest.raises(InputError, match=r"'x' must be in \[0, 1\], given 1.5"):
        holm({"x": 1.5})
