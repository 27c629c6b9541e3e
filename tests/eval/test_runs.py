from __future__ import annotations

import copy
import gzip
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.errors import InputError
from rag.eval.runs import (
    break_ties,
    ranking,
    read_qrels,
    read_run,
    sort_ranking,
    without_self,
    write_qrels,
    write_run,
)
from rag.types import Document, ScoredDocument

scores = st.one_of(st.sampled_from([0.0, 1.0, -1.0]), st.floats(-(2.0**100), 2.0**100, width=32))
rankings = st.lists(scores, max_size=30).map(lambda values: [(f"d{i}", value) for i, value in enumerate(values)])


def names(pairs):
    return [name for name, _ in pairs]


@given(rankings)
def test_break_ties_keeps_the_order_and_decreases_strictly_as_32_bit_floats(pairs):
    ordered = sort_ranking(pairs)
    strict = break_ties(ordered)
    assert names(strict) == names(ordered)
    values = [np.float32(value) for _, value in strict]
    assert all(before > after for before, after in pairwise(values))


def test_break_ties_leaves_distinct_scores_alone():
    assert break_ties([("a", 2.5), ("b", 1.0), ("c", -3.0)]) == [("a", 2.5), ("b", 1.0), ("c", -3.0)]


@given(rankings)
def test_sort_ranking_is_stable(pairs):
    assert sort_ranking(pairs) == sorted(pairs, key=lambda pair: -pair[1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["1", "q2", "Ω"]), rankings.filter(bool), max_size=3))
def test_a_run_comes_back_in_the_same_order(tmp_path, run):
    for name in ("run.txt", "run.txt.gz"):
        write_run(tmp_path / name, run)
        back = read_run(tmp_path / name)
        assert {query: names(pairs) for query, pairs in back.items()} == {
            query: names(sort_ranking(pairs)) for query, pairs in run.items()
        }


def test_written_form(tmp_path):
    write_run(tmp_path / "run", {"q": [("b", 1.0), ("a", 2.0)]}, tag="mine")
    assert (tmp_path / "run").read_text() == "q Q0 a 1 2.0 mine\nq Q0 b 2 1.0 mine\n"
    write_qrels(tmp_path / "qrels.gz", {"q": {"a": 2, "b": -1}})
    assert gzip.decompress((tmp_path / "qrels.gz").read_bytes()) == b"q 0 a 2\nq 0 b -1\n"
    assert read_qrels(tmp_path / "qrels.gz") == {"q": {"a": 2, "b": -1}}


def test_equal_scores_of_a_file_are_read_as_trec_eval_reads_them(tmp_path):
    (tmp_path / "run").write_text("q Q0 d1 1 1 x\nq Q0 d3 2 1 x\nq Q0 d2 3 1.00000000001 x\nq Q0 d0 4 5 x\n")
    assert names(read_run(tmp_path / "run")["q"]) == ["d0", "d3", "d2", "d1"]


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_run, "q Q0 d 1 2.0 x\nq Q0 d2 1\n", "line 2: expected 6 fields"),
        (read_run, "q Q0 d 1 high x\n", "line 1: score must be a number, given 'high'"),
        (read_run, "q Q0 d 1 nan x\n", "not a finite number"),
        (read_run, "q Q0 d 1 2 x\nq Q0 d 2 1 x\n", "'d' is ranked twice"),
        (read_qrels, "\nq 0 d\n", "line 2: expected 4 fields"),
        (read_qrels, "q 0 d 1.5\n", "line 1: grade must be a whole number, given '1.5'"),
        (read_qrels, "q 0 d 1\nq 0 d 2\n", "line 2: .*judged both 1 and 2"),
    ],
)
def test_malformed_files_name_file_and_line(tmp_path, read, text, message):
    (tmp_path / "table.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "table.txt")


def test_ids_that_the_form_cannot_carry(tmp_path):
    with pytest.raises(InputError, match="document id 'two words'"):
        write_run(tmp_path / "run", {"q": [("two words", 1.0)]})
    with pytest.raises(InputError, match="query id ''"):
        write_qrels(tmp_path / "qrels", {"": {"d": 1}})
    assert list(tmp_path.iterdir()) == []


def test_without_self_removes_only_the_query_itself_and_mutates_nothing():
    run = {"a1": [("a1", 3.0), ("a2", 2.0)], "b": [("a1", 1.0)]}
    before = copy.deepcopy(run)
    assert without_self(run) == {"a1": [("a2", 2.0)], "b": [("a1", 1.0)]}
    assert run == before


def test_ranking_of_scored_documents():
    assert ranking([ScoredDocument(Document("a", "x"), 0.5, 1)]) == [("a", 0.5)]


def test_scores_that_are_not_finite():
    with pytest.raises(InputError, match="query 'q', document 'd'"):
        sort_ranking([("d", math.inf)], "q")
