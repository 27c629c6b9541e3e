"""Learning weights: what is there to be found is found, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from rag.attention.types import Head
from rag.errors import InputError
from rag.eval.probe_fit import Column, LabelledItems, LinearScore, fit, learn, strongest
from rag.eval.probe_training import cross_validated, judge, left_out, log_odds, signals

COLUMNS = (*(Column("best-token", Head(0, number)) for number in range(6)), Column("bm25"))
GOOD = 4


def lists(name: str, count: int, seed: int, shift: float = 2.0) -> list[LabelledItems]:
    """Lists of noise, in which head `GOOD` and the signal rise by ``shift`` where an item is relevant."""
    draw = np.random.default_rng(seed)
    made = []
    for number in range(count):
        gains = np.zeros(12)
        gains[draw.integers(12)] = 1
        values = draw.normal(size=(12, len(COLUMNS)))
        values[:, [GOOD, 6]] += shift * gains[:, None]
        made.append(LabelledItems(f"{name}/{number}", values, gains))
    return made


def top_one(of):
    relevant = {item.key: int(item.gains.argmax()) for item in of}
    return lambda scores: {key: float(scores[key].argmax() == place) for key, place in relevant.items()}


def test_the_head_that_carries_relevance_is_chosen_and_weighs_most():
    train = lists("train", 60, 0)
    assert strongest(train, range(6), 1) == [GOOD]
    score = learn(train, COLUMNS, keep=3)
    heads = {place: weight for place, weight in score.weights.items() if place != 6}
    assert max(heads, key=heads.__getitem__) == GOOD
    assert score.weights[6] > 0
    assert all(weight > 0 for weight in score.weights.values())


def test_no_weight_is_negative_even_where_a_feature_speaks_against_relevance():
    train = [LabelledItems(item.key, -item.values, item.gains) for item in lists("train", 60, 1)]
    assert fit(train)[GOOD] == pytest.approx(0)


def test_stronger_regularisation_makes_smaller_weights():
    train = lists("train", 40, 2)
    assert np.square(fit(train, 3.0)).sum() < np.square(fit(train, 0.03)).sum()


def test_lists_without_anything_relevant_teach_nothing_and_alone_are_refused():
    train = lists("train", 30, 3)
    empty = LabelledItems("empty/1", np.ones((4, len(COLUMNS))), np.zeros(4))
    assert learn([*train, empty], COLUMNS).weights == learn(train, COLUMNS).weights
    with pytest.raises(InputError, match="empty/1"):
        learn([empty], COLUMNS)


def test_lists_are_judged_by_what_has_not_seen_them():
    """A feature that names the answer of one's own list alone helps only whoever cheats."""
    collections = {"a": lists("a", 30, 4), "b": lists("b", 30, 5)}
    every = [item for of in collections.values() for item in of]
    orders = {
        **signals(collections, COLUMNS),
        "folds": cross_validated(collections, COLUMNS, 5, 3, 0.3),
        "others": left_out(collections, COLUMNS, 3, 0.3),
    }
    assert all(scores.keys() == {item.key for item in every} for scores in orders.values())
    rows = judge(collections, orders, top_one(every))
    assert [row.collection for row in rows] == ["a", "b"]
    for row in rows:
        mean = {order.name: order.mean for order in row.orders}
        assert mean["folds"] > mean["bm25"]
        assert mean["others"] > mean["bm25"]
    with pytest.raises(InputError, match="2 or more"):
        left_out({"a": collections["a"]}, COLUMNS, 3, 0.3)


def test_the_probability_of_a_sentence_is_right_on_average():
    train = lists("train", 80, 6)
    score, bias = log_odds(learn(train, COLUMNS), train)
    chance = np.concatenate([1 / (1 + np.exp(-(score(item) + bias))) for item in train])
    assert chance.mean() == pytest.approx(1 / 12, abs=0.005)
    assert isinstance(score, LinearScore)
