from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.errors import ConfigError, InputError
from rag.eval.measures import measure
from rag.eval.runs import read_qrels, read_run

FIXTURES = Path(__file__).parent / "fixtures"

# Our name -> trec_eval's.
TREC_EVAL = {
    "AP": "map",
    "nDCG": "ndcg",
    "nDCG@10": "ndcg_cut_10",
    "nDCG@100": "ndcg_cut_100",
    "RR": "recip_rank",
    "Rprec": "Rprec",
    "Bpref": "bpref",
    "P@10": "P_10",
    "R@20": "recall_20",
    "R@100": "recall_100",
}


def printed(name):
    """What trec_eval printed: (measure, query id or "all") to its value, four digits."""
    rows = (line.split() for line in (FIXTURES / name).read_text().splitlines())
    return {(measured, query): value for measured, query, value in rows}


@pytest.mark.parametrize(("run", "output"), [("results.test.gz", "out.test.aq"), ("results.trunc.gz", "out.test.aqc")])
def test_equals_trec_eval(run, output):
    expected = printed(output)
    evaluation = measure(read_qrels(FIXTURES / "qrels.test.gz"), read_run(FIXTURES / run), list(TREC_EVAL))
    for ours, theirs in TREC_EVAL.items():
        for query in ("301", "302", "303"):
            value = evaluation.per_query[ours][query]
            # A topic that the run lacks is not printed; it counts 0 in the mean.
            assert f"{value:.4f}" == expected.get((theirs, query), "0.0000"), (ours, query)
        assert f"{evaluation.aggregate[ours]:.4f}" == expected[theirs, "all"], ours


def test_equal_scores_count_in_the_runs_order_whatever_the_ids():
    qrels = {"q": {"d3": 1}}
    first = measure(qrels, {"q": [("d3", 1.0), ("d1", 1.0), ("d2", 1.0)]}, ["RR@10"])
    last = measure(qrels, {"q": [("d1", 1.0), ("d2", 1.0), ("d3", 1.0)]}, ["RR@10"])
    assert (first.aggregate["RR@10"], last.aggregate["RR@10"]) == (1, pytest.approx(1 / 3))


def test_queries_the_run_lacks_count_zero_and_unjudged_ones_do_not_count():
    qrels = {"a": {"d": 1}, "b": {"d": 1}}
    run = {"a": [("d", 1.0)], "c": [("d", 1.0)]}
    evaluation = measure(qrels, run)
    assert evaluation.per_query["nDCG@10"] == {"a": 1.0, "b": 0.0}
    assert evaluation.aggregate["nDCG@10"] == 0.5
    assert measure(qrels, {}).aggregate["AP"] == 0


def test_judged_at_10_is_the_share_of_judged_documents():
    evaluation = measure(
        {"q": {"a": 1, "b": 0}}, {"q": [(name, -float(i)) for i, name in enumerate("abcd")]}, ["Judged@10"]
    )
    assert evaluation.aggregate["Judged@10"] == 0.5


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_ndcg_by_its_definition(grades):
    qrels = {"q": {f"d{i}": grade for i, grade in enumerate(grades)}}
    run = {"q": [(f"d{i}", float(-i)) for i in range(len(grades))]}
    ideal = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(sorted(grades, reverse=True)[:10], start=1))
    gain = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades[:10], start=1))
    assert measure(qrels, run, ["nDCG@10"]).aggregate["nDCG@10"] == pytest.approx(gain / ideal if ideal else 0)


def test_bad_input():
    with pytest.raises(ConfigError, match=r"unknown measure 'nDGC@10'.*nDCG"):
        measure({"q": {"d": 1}}, {}, ["nDGC@10"])
    with pytest.raises(InputError, match="no judgements"):
        measure({}, {"q": [("d", 1.0)]})
    with pytest.raises(InputError, match="not a finite number"):
        measure({"q": {"d": 1}}, {"q": [("d", math.nan)]})
    with pytest.raises(InputError, match="'d' is ranked twice"):
        measure({"q": {"d": 1}}, {"q": [("d", 2.0), ("d", 1.0)]})
