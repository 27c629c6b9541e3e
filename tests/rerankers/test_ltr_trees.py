"""LambdaMART on lists whose right order is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ranking_lists import INCREASING, NAMES, labelled_lists

from rag.errors import ArtefactError, InputError
from rag.rerankers.ltr_trees import LabelledFeatures, TreeParameters, Trees, fit

PARAMETERS = TreeParameters(rounds=60, rows_per_leaf=5)


@pytest.fixture(scope="module")
def trees() -> Trees:
    return fit(labelled_lists(40), NAMES, INCREASING, PARAMETERS)


def first_is_relevant(trees: Trees, lists: list[LabelledFeatures]) -> float:
    return sum(item.grades[int(np.argmax(trees.score(item.values)))] for item in lists) / len(lists)


def test_unseen_lists_are_ordered_by_the_features_that_matter(trees):
    unseen = labelled_lists(60, seed=9)
    assert first_is_relevant(trees, unseen) > 0.6
    assert sum(item.grades[0] for item in unseen) / len(unseen) < 0.35
    assert list(trees.importance())[:2] == ["good", "useful"]
    assert sum(trees.importance().values()) == pytest.approx(1)


def test_growing_stops_where_the_held_lists_gain_nothing_more():
    held = labelled_lists(20, seed=5)
    stopped = fit(labelled_lists(40), NAMES, INCREASING, TreeParameters(rounds=400, patience=10, rows_per_leaf=5), held)
    assert 1 <= stopped.rounds < 390
    assert first_is_relevant(stopped, labelled_lists(60, seed=9)) > 0.5


def test_the_same_lists_give_the_same_trees(trees):
    again = fit(labelled_lists(40), NAMES, INCREASING, PARAMETERS)
    assert again.text == trees.text
    assert again == trees


def test_more_of_an_increasing_feature_never_lowers_a_score(trees):
    steps = np.linspace(-4, 4, 81)
    for row in labelled_lists(5, seed=3)[0].values:
        for column, rises in enumerate(INCREASING):
            if rises:
                table = np.tile(row, (len(steps), 1))
                table[:, column] = steps
                assert (np.diff(trees.score(table)) >= 0).all()


def test_trees_survive_their_text_and_refuse_other_features(trees):
    values = labelled_lists(1, seed=4)[0].values
    assert np.array_equal(Trees.from_text(trees.text, NAMES).score(values), trees.score(values))
    with pytest.raises(ArtefactError, match=r"expected features other, .*; found good, useful, noise, more_noise"):
        Trees.from_text(trees.text, ["other", *NAMES[1:]])


def test_missing_values_are_scored_and_infinite_ones_refused(trees):
    values = labelled_lists(1, seed=4)[0].values.copy()
    values[0, 0] = math.nan
    assert np.isfinite(trees.score(values)).all()
    values[0, 0] = math.inf
    with pytest.raises(InputError, match="infinite"):
        trees.score(values)
    with pytest.raises(InputError, match=r"shape \(3, 2\); expected \(documents, 4\)"):
        trees.score(np.zeros((3, 2)))


def test_a_list_without_anything_relevant_is_refused_by_name():
    lists = labelled_lists(4)
    hopeless = LabelledFeatures("who sank the boat?", lists[0].values, (0,) * 12)
    with pytest.raises(InputError, match="'who sank the boat\\?' has nothing relevant"):
        fit([*lists, hopeless], NAMES, INCREASING, PARAMETERS)
    with pytest.raises(InputError, match="validation: query"):
        fit(lists, NAMES, INCREASING, PARAMETERS, [hopeless])
    with pytest.raises(InputError, match="no labelled list"):
        fit([], NAMES, INCREASING, PARAMETERS)
    with pytest.raises(InputError, match="has 4 features; expected 3"):
        fit(lists, NAMES[:3], INCREASING[:3], PARAMETERS)


@pytest.mark.parametrize(
    ("values", "grades", "problem"),
    [
        (np.zeros((2, 3)), (1,), "1 grades"),
        (np.zeros((0, 3)), (), "at least one"),
        (np.full((1, 3), math.inf), (1,), "infinite"),
        (np.zeros((1, 3)), (-1,), "grade -1"),
        (np.zeros((1, 3)), (32,), "grade 32; accepted: 0 to 31"),
    ],
)
def test_what_lightgbm_would_crash_on_or_misread_never_reaches_it(values, grades, problem):
    with pytest.raises(InputError, match=problem):
        LabelledFeatures("q", values, grades)


def test_the_highest_grade_can_be_learned():
    (item,) = labelled_lists(1)
    graded = LabelledFeatures("q", item.values, tuple(31 * grade for grade in item.grades))
    assert fit([graded], NAMES, INCREASING, PARAMETERS).rounds >= 1
