from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.budget import Budget
from rag.errors import BudgetError


@given(st.integers(1, 100), st.integers(0, 10_000))
def test_a_percentage_is_exact(percent, total):
    assert Budget(percent / 100, "ratio").limit(total) == percent * total // 100


@given(st.floats(1e-6, 1), st.integers(0, 10**9))
def test_a_ratio_never_allows_more_than_there_is(ratio, total):
    limit = Budget(ratio, "ratio").limit(total)
    assert 0 <= limit <= total
    assert limit <= ratio * total + 1e-9


def test_a_count_does_not_depend_on_the_source():
    assert Budget(7).limit(3) == Budget(7.0, "characters").limit(3) == 7


@pytest.mark.parametrize(
    ("amount", "unit"),
    [
        (0, "tokens"),
        (-1, "characters"),
        (1.5, "tokens"),
        (1.01, "ratio"),
        (float("nan"), "ratio"),
        (float("inf"), "tokens"),
        ("50", "tokens"),
        (None, "tokens"),
        (True, "tokens"),
        (5, "words"),
    ],
)
def test_an_amount_that_is_not_possible(amount, unit):
    with pytest.raises(BudgetError, match=r"budget"):
        Budget(amount, unit)
