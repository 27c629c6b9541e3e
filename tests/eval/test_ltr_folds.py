"""Held-out figures of learning to rank: nothing that is judged may have been seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ranking_lists import INCREASING, NAMES, labelled_lists

from rag.attention.types import Head
from rag.errors import InputError
from rag.eval.ltr_data import STATISTIC, CandidateList
from rag.eval.ltr_fit import Plan, learnable
from rag.eval.ltr_folds import balanced_folds, column, cross_validate, leave_one_out, values
from rag.eval.ltr_training import as_they_came, train_and_judge
from rag.eval.probe_fit import Column
from rag.rerankers.ltr_features import Feature, FeatureGroup, head_features
from rag.rerankers.ltr_trees import TreeParameters

PLAIN = FeatureGroup(
    "plain", tuple(Feature(name, rises, optional=True) for name, rises in zip(NAMES, INCREASING, strict=True)), None
)
OF_HEADS = FeatureGroup("heads", (Feature("mean", True), Feature("spread")), None, reads_heads=True)
HEADS = (Head(0, 0), Head(0, 1), Head(1, 0))
COLUMNS = (*map(Column, NAMES), *(Column(STATISTIC, head) for head in HEADS))
NOISE = FeatureGroup("noise", PLAIN.features[2:], None)
PARAMETERS = TreeParameters(rounds=30, patience=10, rows_per_leaf=5)
PLAN = Plan(COLUMNS[:4], (PLAIN,), PARAMETERS)


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


def mean(of: dict[str, float]) -> float:
    return float(np.mean(list(of.values())))


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
    validated = cross_validate(some, PLAN, 3)
    assert list(validated.scores) == [item.key for item in some]
    before, after = values(some, as_they_came(some)), values(some, validated.scores)
    assert mean(after) > mean(before) + 0.2
    assert len(validated.rounds) == 3


def test_the_labels_of_a_fold_do_not_reach_its_own_scores():
    some = lists("harbour", 24)
    validated = cross_validate(some, PLAN, 3)
    turned = [upside_down(item) if validated.folds[item.key] == 1 else item for item in some]
    again = cross_validate(turned, PLAN, 3)
    same = {key for key in validated.scores if np.array_equal(validated.scores[key], again.scores[key])}
    assert {key for key, fold in validated.folds.items() if fold == 1} <= same
    assert len(same) < len(some)  # the other folds did learn from those labels


def test_a_collection_that_is_left_out_teaches_nothing():
    collections = {"harbour": lists("harbour", 12), "village": lists("village", 12, seed=5)}
    left_out = leave_one_out(collections, PLAN, 3)
    turned = {**collections, "village": [upside_down(item) for item in collections["village"]]}
    again = leave_one_out(turned, PLAN, 3)
    same = {key for key in left_out if np.array_equal(left_out[key], again[key])}
    assert {item.key for item in collections["village"]} <= same
    assert len(same) < len(left_out)


def test_too_few_folds_and_lists_without_anything_relevant_are_refused():
    some = lists("harbour", 6)
    with pytest.raises(InputError, match="2 folds; accepted: 3 or more"):
        cross_validate(some, PLAN, 2)
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
    scores = column([replace(item, values=table)], PLAN.columns, "good")["harbour/q0"]
    assert scores.argmin() == 3


def test_a_list_without_candidates_counts_as_nothing_found():
    (item,) = lists("harbour", 1)
    empty = CandidateList("harbour", "none", (), np.empty((0, 4)), {"d1": 1})
    found = values([item, empty], {item.key: item.values[:, 0], empty.key: np.empty(0)})
    assert found[empty.key] == 0 < found[item.key]


def with_heads(collection: str, count: int, good: int) -> list[CandidateList]:
    """Lists that only the head number ``good`` ranks; the other heads and the plain features are noise."""
    random = np.random.default_rng(good)
    made = []
    for item in lists(collection, count, seed=7):
        heads = random.normal(size=(len(item.documents), len(HEADS)))
        heads[:, good] = [item.judgements[name] for name in item.documents] + 0.3 * heads[:, good]
        noise = random.normal(size=item.values.shape)
        made.append(replace(item, values=np.concatenate([noise, heads], axis=1)))
    return made


def test_heads_are_chosen_on_what_is_learned_from():
    plan = Plan(COLUMNS, (PLAIN, OF_HEADS), PARAMETERS, keep=1)
    harbour, village = with_heads("harbour", 12, 0), with_heads("village", 12, 2)
    chosen = {name: plan.fit(of, rounds=10).heads for name, of in (("harbour", harbour), ("village", village))}
    assert chosen == {"harbour": (HEADS[0],), "village": (HEADS[2],)}
    # Left out, each is ranked by the head of the other one, which says nothing of it.
    left_out = leave_one_out({"harbour": harbour, "village": village}, plan, 3)
    by_its_own = column(village, COLUMNS, f"{STATISTIC} 1-0")
    assert mean(values(village, left_out)) < mean(values(village, by_its_own)) - 0.2


def test_trees_are_given_the_plain_columns_of_their_groups_and_a_summary_of_their_heads():
    plan = Plan(COLUMNS, (PLAIN, OF_HEADS), PARAMETERS, keep=2)
    values = np.random.default_rng(1).normal(size=(5, len(COLUMNS)))
    table = plan.table(values, (HEADS[0], HEADS[2]))
    assert np.array_equal(table[:, :4], values[:, :4])
    assert np.array_equal(table[:, 4:], head_features(values[:, [4, 6]].T))
    assert np.array_equal(plan.without(PLAIN).table(values, (HEADS[0], HEADS[2])), table[:, 4:])
    assert plan.without(OF_HEADS).fit(with_heads("harbour", 6, 0), rounds=2).heads == ()


def test_training_reports_every_order_of_every_collection_and_what_taught_nothing():
    collections = {"harbour": with_heads("harbour", 12, 0), "village": with_heads("village", 12, 0)}
    collections["village"][3] = replace(collections["village"][3], judgements={"elsewhere": 1})
    plan = Plan((Column("bm25"), Column("dense"), *COLUMNS[2:]), (OF_HEADS, NOISE), PARAMETERS, keep=1)
    training = train_and_judge(collections, plan, 3, "fused")
    assert training.without_relevant == {"harbour": (), "village": ("q3",)}
    for row in training.judged["nDCG@10"]:
        means = {order.name: order.mean for order in row.orders}
        assert list(means) == [
            "fused", "bm25", "dense", "lambdamart, 3 folds", "lambdamart of the other collections",
            "the same without heads", "the same without noise",
        ]  # fmt: skip
        assert min(means["lambdamart, 3 folds"], means["lambdamart of the other collections"]) > means["fused"] + 0.2
        assert means["the same without heads"] < means["the same without noise"]
        (first, *_, left_out, _, _) = row.orders
        assert first.p is None
        assert left_out.p is not None
        assert left_out.p < 0.05
    village = collections["village"]
    assert training.figures()["village: fused"] == pytest.approx(mean(values(village, as_they_came(village))), abs=1e-4)
