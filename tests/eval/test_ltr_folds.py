"""Held-out figures of learning to rank: nothing that is judged may have been seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ranking_lists import INCREASING, NAMES, labelled_lists

from rag.errors import InputError
from rag.eval.ltr_data import CandidateList
from rag.eval.ltr_folds import balanced_folds, column, cross_validate, learnable, leave_one_out, values
from rag.eval.ltr_training import judge, train_and_judge
from rag.rerankers.ltr_features import Feature
from rag.rerankers.ltr_trees import TreeParameters

FEATURES = [Feature(name, rises, optional=True) for name, rises in zip(NAMES, INCREASING, strict=True)]
PARAMETERS = TreeParameters(rounds=30, patience=10, rows_per_leaf=5)


def lists(collection: str, count: int, seed: int = 0) -> list[CandidateList]:
    return [
        CandidateList(
            collection,
            item.query,
            tuple(f"d{place}" for place in range(len(item.grades))),
            item.values,
            {f"d{place}": grade for place, grade in enumerate(item.grades)},
        )
        for item in labelled_lists(count, seed)
    ]


def upside_down(item: CandidateList) -> CandidateList:
    return replace(item, judgements={name: 1 - grade for name, grade in item.judgements.items()})


def test_folds_are_of_equal_size_and_do_not_depend_on_the_order():
    keys = [f"c/{i}" for i in range(23)]
    folds = balanced_folds(keys, 5)
    assert folds == balanced_folds(keys[::-1], 5)
    sizes = [list(folds.values()).count(fold) for fold in range(5)]
    assert sorted(sizes) == [4, 4, 5, 5, 5]
    with pytest.raises(InputError, match="2 queries for 3 folds"):
        balanced_folds(["a", "b"], 3)


def test_unseen_queries_are_ranked_better_than_they_came():
    some = lists("harbour", 30)
    validated = cross_validate(some, FEATURES, PARAMETERS, 3)
    assert list(validated.scores) == [item.key for item in some]
    before, after = values(some, None), values(some, validated.scores)
    assert np.mean(list(after.values())) > np.mean(list(before.values())) + 0.2
    assert len(validated.rounds) == 3


def test_the_labels_of_a_fold_do_not_reach_its_own_scores():
    some = lists("harbour", 24)
    validated = cross_validate(some, FEATURES, PARAMETERS, 3)
    turned = [upside_down(item) if validated.folds[item.key] == 1 else item for item in some]
    again = cross_validate(turned, FEATURES, PARAMETERS, 3)
    same = {key for key in validated.scores if np.array_equal(validated.scores[key], again.scores[key])}
    assert {key for key, fold in validated.folds.items() if fold == 1} <= same
    assert len(same) < len(some)  # the other folds did learn from those labels


def test_a_collection_that_is_left_out_teaches_nothing():
    collections = {"harbour": lists("harbour", 12), "village": lists("village", 12, seed=5)}
    left_out = leave_one_out(collections, FEATURES, PARAMETERS, 3)
    turned = {**collections, "village": [upside_down(item) for item in collections["village"]]}
    again = leave_one_out(turned, FEATURES, PARAMETERS, 3)
    assert all(np.array_equal(left_out["village"][key], again["village"][key]) for key in left_out["village"])
    assert not all(np.array_equal(left_out["harbour"][key], again["harbour"][key]) for key in left_out["harbour"])


def test_too_few_folds_and_lists_without_anything_relevant_are_refused():
    some = lists("harbour", 6)
    with pytest.raises(InputError, match="2 folds; accepted: 3 or more"):
        cross_validate(some, FEATURES, PARAMETERS, 2)
    hopeless = [replace(item, judgements={"elsewhere": 1}) for item in some]
    with pytest.raises(InputError, match="anything relevant among its candidates: harbour/q0, harbour/q1"):
        learnable(hopeless)
    assert [item.query for item in learnable([hopeless[0], some[1]])] == ["harbour/q1"]


def test_grades_below_zero_are_not_relevant():
    (item,) = lists("harbour", 1)
    assert replace(item, judgements={"d0": -2, "d1": 2}).labelled().grades[:3] == (0, 2, 0)


def test_a_missing_value_ranks_last_when_one_feature_orders_the_list():
    (item,) = lists("harbour", 1)
    table = item.values.copy()
    table[3, 0] = np.nan
    scores = column([replace(item, values=table)], FEATURES, "good")["harbour/q0"]
    assert scores.argmin() == 3


def test_a_list_without_candidates_counts_as_nothing_found():
    (item,) = lists("harbour", 1)
    empty = CandidateList("harbour", "none", (), np.empty((0, 4)), {"d1": 1})
    found = values([item, empty], {item.key: item.values[:, 0], empty.key: np.empty(0)})
    assert found[empty.key] == 0 < found[item.key]


def test_training_reports_folds_collections_and_what_taught_nothing():
    collections = {"harbour": lists("harbour", 12), "village": lists("village", 12, seed=5)}
    collections["village"][3] = replace(collections["village"][3], judgements={"elsewhere": 1})
    training = train_and_judge(collections, FEATURES, PARAMETERS, 3)
    assert sum(fold.queries for fold in training.folds) == 24
    harbour, village = training.collections
    assert harbour.without_relevant == ()
    assert village.without_relevant == ("q3",)
    assert min(harbour.cross_validated, harbour.left_out) > harbour.incoming
    assert set(training.figures()) >= {"harbour incoming", "village left out"}
    judged = judge("village", collections["village"], {item.key: item.values[:, 0] for item in collections["village"]})
    assert judged.lambdamart > judged.incoming
    assert judged.interval.low <= judged.lambdamart - judged.incoming <= judged.interval.high
