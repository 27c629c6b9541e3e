from __future__ import annotations

import pytest

from rag.errors import ConfigError, InputError
from rag.eval.context import Kept
from rag.eval.context_results import compare, plain, plot, summarise


def kept(question: str, system: str, budget: float, **values: float | None) -> Kept:
    filled = {"ratio": budget * 0.9, "seconds": 0.5} | values
    return Kept("town", question, system, budget, {}, 100, int(90 * budget), False, filled)


@pytest.fixture
def items() -> list[Kept]:
    """Ten questions; "good" is better in nine of them, and question q9 has no supporting sentence."""
    made = []
    for budget in (0.4, 0.1):
        for i in range(10):
            for system, recall in (("base", 0.25), ("good", 0.75)):
                value = None if i == 9 else recall + budget / 10
                made.append(kept(f"q{i}", system, budget, recall=value, retention=float(i % 2), auc=0.5))
    return made


def test_means_are_over_the_questions_that_have_a_value(items):
    results = summarise(items, "base")
    rows = {(row.system, row.budget): row for row in results.rows}
    row = rows["good", 0.1]
    assert row.means["recall"] == pytest.approx(0.76)
    assert (row.counts["recall"], row.counts["retention"], row.questions) == (9, 10, 10)
    assert row.means["retention"] == 0.5
    assert row.intervals["retention"].low < 0.5 < row.intervals["retention"].high
    assert row.latency.p50 == 0.5
    assert results.curve("town", "good", "recall") == [(pytest.approx(0.09), pytest.approx(0.76)),
                                                       (pytest.approx(0.36), pytest.approx(0.79))]  # fmt: skip
    assert plain(results)[0]["means"]["recall"] == pytest.approx(0.29)


def test_the_baseline_is_compared_under_the_same_budget(items):
    rows = {(row.system, row.budget): row for row in summarise(items, "base").rows}
    assert rows["base", 0.1].against == {}
    against = rows["good", 0.1].against
    assert against["recall"].difference == pytest.approx(0.5)
    assert against["recall"].p_randomisation == pytest.approx(2 / 2**9, abs=1e-3)
    assert against["retention"].difference == 0
    assert against["retention"].p_randomisation == 1
    assert "f1" not in against


def test_only_questions_of_both_are_paired_and_p_values_adjusted():
    base = {f"q{i}": 0.0 for i in range(8)}
    good = {f"q{i}": 1.0 for i in range(2, 12)}
    result = compare({"base": base, "good": good, "elsewhere": {"z": 1.0}, "same": dict(base)}, "base")
    assert set(result) == {"good", "same"}
    # Six pairs, all one way: 2 / 2**6, doubled by Holm for two comparisons.
    assert result["good"].p_randomisation == pytest.approx(4 / 2**6, abs=5e-3)
    assert result["same"].p_randomisation == 1


def test_a_system_without_the_baselines_budget_is_not_compared(items):
    more = [*items, kept("q1", "full context", 1.0, recall=None)]
    (row,) = (row for row in summarise(more, "base").rows if row.system == "full context")
    assert row.against == {}
    assert "recall" not in row.means


def test_nothing_and_an_unknown_baseline_are_refused(items):
    with pytest.raises(InputError, match="no result"):
        summarise([], "base")
    with pytest.raises(ConfigError, match="'dense' is not among the systems: base, good"):
        summarise(items, "dense")


def test_curves_are_drawn(items, tmp_path):
    plot(summarise(items, "base"), ["recall", "retention"], tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").read_text().startswith("<?xml")
