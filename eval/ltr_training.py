"""Training LambdaMART on labelled collections, with the figures that say what it is worth elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag.eval.ltr_data import CandidateList
from rag.eval.ltr_fit import Plan, Ranker
from rag.eval.ltr_folds import MEASURE, Scored, as_they_came, column, cross_validate, leave_one_out, values
from rag.eval.probe_training import Judgement, judge

COMPARED = ("bm25", "dense")
"""Single features that are shown as rankings of their own."""

Collections = Mapping[str, Sequence[CandidateList]]


@dataclass(frozen=True, slots=True)
class Training:
    """Trees fitted to all the lists, how such trees rank lists they did not see, and what taught nothing.

    ``without_relevant`` names by collection the queries whose candidates hold nothing relevant: they count as 0
    everywhere, and nothing is learned from them.
    """

    ranker: Ranker
    judged: Mapping[str, Sequence[Judgement]]
    without_relevant: Mapping[str, tuple[str, ...]]

    def figures(self) -> dict[str, float]:
        """The figures that go into the model's file."""
        rows = self.judged[MEASURE]
        return {f"{row.collection}: {order.name}": round(order.mean, 4) for row in rows for order in row.orders}


def train_and_judge(collections: Collections, plan: Plan, folds: int, incoming: str) -> Training:
    """Cross-validate over all the queries, leave out each collection in turn, and fit the final trees to everything.

    With collections left out, trees are also judged without each group of features. The final model has as many trees
    as the folds' models had on average when they stopped. ``incoming`` is what the order that lists come in is called.

    Raises:
        InputError: see `rag.eval.ltr_folds.cross_validate`.
    """
    lists = [item for of in collections.values() for item in of]
    validated = cross_validate(lists, plan, folds)
    orders: dict[str, Scored] = {
        incoming: as_they_came(lists),
        **{name: column(lists, plan.columns, name) for name in COMPARED},
        f"lambdamart, {folds} folds": validated.scores,
    }
    if len(collections) > 1:
        orders["lambdamart of the other collections"] = leave_one_out(collections, plan, folds)
        if len(plan.groups) > 1:
            orders |= {
                f"the same without {group.name}": leave_one_out(collections, plan.without(group), folds)
                for group in plan.groups
            }
    return Training(
        plan.fit(lists, rounds=validated.typical_rounds),
        judge_orders(collections, orders),
        {name: tuple(item.query for item in of if not item.has_relevant) for name, of in collections.items()},
    )


def judge_orders(collections: Collections, orders: Mapping[str, Scored]) -> dict[str, list[Judgement]]:
    """Mean nDCG@10 of each collection under each order; p of the difference from the first order."""
    lists = [item for of in collections.values() for item in of]
    return {MEASURE: judge(collections, orders, lambda scores: values(lists, scores))}
