"""The maths of calibration, against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag.errors import InputError
from rag.rerankers.calibration import (
    IsotonicCurve,
    LogisticModel,
    abstain_below,
    brier,
    expected_calibration_error,
    list_features,
    reliability,
)
from rag.standard_scores import standard_scores

finite = st.floats(-1e6, 1e6)


def test_brier_and_calibration_error_by_hand():
    p, y = [0.1, 0.3, 0.8, 0.8], [0, 1, 1, 0]
    assert brier(p, y) == pytest.approx((0.01 + 0.49 + 0.04 + 0.64) / 4)
    # Bins of a tenth: {0.1: 0}, {0.3: 1}, {0.8, 0.8: half}.
    assert expected_calibration_error(p, y) == pytest.approx((0.1 + 0.7 + 2 * 0.3) / 4)
    assert expected_calibration_error([0.5, 0.5], [0, 1]) == 0
    assert brier([1.0, 0.0], [1, 0]) == 0


def test_bins_of_a_reliability_diagram():
    diagram = reliability([0.0, 0.05, 0.1, 1.0], [0, 1, 0, 1])
    assert [(item.low, item.high, item.size, item.observed) for item in diagram] == [
        (0.0, 0.1, 2, 0.5),
        (0.1, 0.2, 1, 0.0),
        (0.9, 1.0, 1, 1.0),
    ]
    assert diagram[0].predicted == pytest.approx(0.025)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=40), st.integers(1, 20))
def test_measures_stay_in_range_and_no_prediction_is_lost(pairs, bins):
    p, y = zip(*pairs, strict=True)
    assert sum(item.size for item in reliability(p, y, bins)) == len(pairs)
    assert 0 <= brier(p, y) <= 1
    assert 0 <= expected_calibration_error(p, y, bins) <= 1 + 1e-12


@pytest.mark.parametrize(
    ("p", "y", "problem"),
    [
        ([], [], "as many"),
        ([0.5], [0, 1], "as many"),
        ([1.5], [1], "outside"),
        ([math.nan], [1], "outside"),
        ([0.5], [2], "0 or 1"),
    ],
)
def test_values_that_are_no_probabilities_or_labels_are_refused(p, y, problem):
    for measure in (brier, expected_calibration_error):
        with pytest.raises(InputError, match=problem):
            measure(p, y)


def test_features_of_a_list():
    assert list_features([3.0]) == (3.0, 0.0, 0.0)
    assert list_features([1.0, 1.0, 1.0]) == pytest.approx((1.0, 0.0, 1.0))
    clear, unclear = list_features([5.0, 0.1, 0.0, 0.2]), list_features([0.2, 0.1, 0.0, 0.15])
    assert clear.margin == pytest.approx(4.8)
    assert clear.entropy < unclear.entropy < 1
    for bad in ([], [math.nan], [1.0, math.inf]):
        with pytest.raises(InputError, match="finite"):
            list_features(bad)


@given(st.lists(finite, min_size=1, max_size=20))
def test_features_of_a_list_do_not_depend_on_its_order(scores):
    assert list_features(scores) == pytest.approx(list_features(scores[::-1]), rel=1e-6, abs=1e-9)
    assert -1e-9 <= list_features(scores).entropy <= 1 + 1e-9


def test_an_isotonic_curve_rises_and_is_never_certain():
    random = np.random.default_rng(1)
    scores = random.normal(size=400)
    labels = (random.random(400) < 1 / (1 + np.exp(-2 * scores))).astype(int)
    curve = IsotonicCurve.fit(scores.tolist(), labels.tolist())
    p = curve(np.linspace(-9, 9, 200).tolist())
    assert (np.diff(p) >= 0).all()
    assert 0 < p[0] < 0.2 < 0.8 < p[-1] < 1
    assert brier(curve(scores.tolist()).tolist(), labels.tolist()) < 0.2 < brier([labels.mean()] * 400, labels.tolist())
    assert IsotonicCurve.model_validate_json(curve.model_dump_json()) == curve


def test_logistic_regression_finds_what_matters_and_keeps_its_names():
    random = np.random.default_rng(2)
    rows = [{"top": float(x), "flat": 1.0} for x in random.normal(5, 2, size=300)]
    labels = [int(row["top"] + random.normal() > 5) for row in rows]
    model = LogisticModel.fit(rows, labels)
    assert model.features == ("top", "flat")
    assert model({"top": 9.0, "flat": 1.0}) > 0.9 > 0.1 > model({"top": 1.0, "flat": 1.0})
    assert model({"flat": 1.0, "top": 1e9}) == 1.0
    assert model({"top": -1e9, "flat": 1.0}) == 0.0
    for fit in (lambda: LogisticModel.fit(rows, [1] * 300), lambda: IsotonicCurve.fit([1.0, 2.0], [0, 0])):
        with pytest.raises(InputError, match="labels 0 and 1"):
            fit()


@pytest.mark.parametrize(
    "broken",
    [
        {"scores": (), "probabilities": ()},
        {"scores": (1, 0), "probabilities": (0, 1)},
        {"scores": (0, 1), "probabilities": (1, 0)},
        {"scores": (0, 1), "probabilities": (0, 2)},
        {"scores": (0, math.nan), "probabilities": (0, 1)},
    ],
)
def test_knots_that_make_no_curve_are_refused(broken):
    with pytest.raises(ValidationError):
        IsotonicCurve(**broken)


def test_the_threshold_gives_up_no_more_than_it_may():
    p = [0.1, 0.2, 0.3, 0.4, 0.5, 0.9, 0.05, 0.25]
    y = [1, 1, 1, 1, 1, 1, 0, 0]
    assert abstain_below(p, y, 0.0) == 0.1
    assert abstain_below(p, y, 0.17) == 0.2  # one of six lies below
    with pytest.raises(InputError, match=r"in \[0, 1\)"):
        abstain_below(p, y, 1.0)
    with pytest.raises(InputError, match="positive"):
        abstain_below([0.5], [0], 0.1)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=30), st.floats(0, 0.99))
def test_the_threshold_keeps_its_promise_also_among_equals(pairs, wrongly):
    p, y = zip(*pairs, strict=True)
    if any(y):
        threshold = abstain_below(p, y, wrongly)
        given_up = sum(value < threshold for value, label in pairs if label)
        assert given_up <= wrongly * sum(y)


def test_standard_scores_pass_over_what_is_missing():
    assert standard_scores([1.0, math.nan, 3.0])[[0, 2]].tolist() == [-1.0, 1.0]
    assert math.isnan(standard_scores([1.0, math.nan, 3.0])[1])
    assert standard_scores([0.1, 0.1, 0.1]).tolist() == [0, 0, 0]
    assert np.isnan(standard_scores([math.nan])).all()
    assert standard_scores([]).shape == (0,)
