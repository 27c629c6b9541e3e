from __future__ import annotations

import random

import pytest

from rag.errors import InputError
from rag.eval.calibration_quality import ALL, HeldOut, Judged, Quality, by_collection, by_fold, figures, hold_out
from rag.eval.ltr_calibration import Calibrators, ScoredList


def scored(number: int, answers: bool, collection: str = "town") -> ScoredList:
    """Ten documents; the first is relevant where the list answers, and its score says so. Scores are far too sure."""
    draw = random.Random(f"{collection}-{number}-{answers}")
    scores = [4 * draw.gauss(2 if answers else 0, 1), *(4 * draw.gauss(0, 1) for _ in range(9))]
    relevant = (int(answers), *[0] * 9)
    return ScoredList(collection, str(number), {"top": max(scores)}, tuple(scores), relevant)


def lists(collection: str = "town") -> list[ScoredList]:
    return [scored(number, answers, collection) for number in range(60) for answers in (True, False)]


def test_quality_by_hand():
    found = Quality.of([0.9, 0.6, 0.7, 0.2], [1, 1, 0, 0])
    assert (found.count, found.base_rate, found.brier_of_base_rate) == (4, 0.5, 0.25)
    assert found.auc == 0.75  # 0.6 is below 0.7, the other three pairs are in order
    assert found.brier == pytest.approx((0.01 + 0.16 + 0.49 + 0.04) / 4)
    assert Quality.of([0.9, 0.6], [1, 1]).auc is None


def test_no_list_is_judged_by_calibrators_that_saw_its_query():
    given = lists()
    folds = by_fold(given, 3)
    judged = hold_out(given, folds)
    assert sorted(of.item.key for of in judged) == sorted(item.key for item in given)
    for of in judged:
        others = Calibrators.fit([item for item in given if folds(item) != folds(of.item)])
        assert (of.answerable, list(of.relevance)) == others.judge(of.item)
    with pytest.raises(InputError, match="at least 2 parts of the queries, given 1"):
        hold_out(given, by_collection)


def test_calibration_mends_scores_that_are_too_sure_and_leaves_their_order():
    (found,) = figures(hold_out(lists(), by_fold(lists(), 5)), 0.1).values()
    assert found.answerable.ece < found.answerable_before.ece / 2
    assert found.relevance.brier < found.relevance_before.brier
    assert found.relevance.brier < found.relevance.brier_of_base_rate
    assert found.answerable.auc == pytest.approx(found.answerable_before.auc, abs=0.05)
    assert found.given_up <= 0.1
    assert found.caught > found.given_up


def test_several_collections_are_shown_alone_and_together_with_one_threshold():
    given = [*lists("town"), *lists("harbour")]
    found = figures(hold_out(given, by_collection), 0.05)
    assert list(found) == [ALL, "town", "harbour"]
    assert len({of.threshold for of in found.values()}) == 1
    assert found[ALL].answerable.count == found["town"].answerable.count + found["harbour"].answerable.count == 240
    assert found[ALL].given_up <= 0.05


def test_without_lists_of_one_kind_there_is_no_share():
    judged = [Judged(scored(number, True), 0.5, (0.5,) * 10) for number in range(3)]
    found = HeldOut.of(judged, 0.6)
    assert (found.caught, found.given_up, found.answerable.auc) == (None, 1.0, None)
