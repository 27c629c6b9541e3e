from __future__ import annotations

import pytest

from rag.errors import InputError
from rag.eval.results_methods import methods
from rag.eval.results_page import results_page


def record(collection, figures, **changes):
    systems = [
        {"system": name, "nDCG@10": value, "RR@10": value / 2, "nDCG@10 p": 0.5} for name, value in figures.items()
    ]
    made = {"evaluation": "retrieval", "collection": collection, "queries": 9, "k": 20, "candidates": "fused"}
    return {**made, "measures": ["nDCG@10", "RR@10"], "systems": systems, **changes}


RECORDS = {
    "a.json": record("a", {"fused": 0.5, "probe": 0.6}),
    "a-more.json": record("a", {"fused": 0.5004, "icr": 0.2, "probe": 0.9}),
    "b.json": record("b", {"fused": 0.4, "probe": 0.3}),
    "seconds.json": {
        "benchmark": "rerankers",
        "rows": [
            {"system": "fused", "cold_s": None, "warm_s": 0.00312},
            {"system": "probe", "cold_s": 25.21, "warm_s": 1.004},
            {"system": "pointwise", "cold_s": 90.0, "warm_s": 90.0},
        ],
    },
}
OPTIONS = {
    "collections": {"A": ["a.json", "a-more.json"], "B": "b.json"},
    "seconds": "seconds.json",
    "labels": {"probe": "probe (default)"},
}


def test_every_method_has_its_measures_on_every_collection_and_its_milliseconds():
    assert methods(RECORDS, OPTIONS).splitlines() == [
        "| method | A: nDCG@10 | A: RR@10 | B: nDCG@10 | B: RR@10 | ms cold | ms warm |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| fused | 0.500 | 0.250 | 0.400 | 0.200 | - | 3.1 |",
        "| probe (default) | 0.600 | 0.300 | 0.300 | 0.150 | 25,210 | 1,004 |",
        "| icr | 0.200 | 0.100 | - | - | - | - |",
        "| pointwise | - | - | - | - | 90,000 | 90,000 |",
    ]


def test_methods_are_shown_in_the_order_asked_for():
    lines = methods(RECORDS, {**OPTIONS, "methods": ["icr", "fused"]}).splitlines()
    assert [line.split(" ")[1] for line in lines[2:]] == ["icr", "fused"]
    with pytest.raises(InputError, match="no record has the method 'tea'; they have: fused, probe, icr, pointwise"):
        methods(RECORDS, {**OPTIONS, "methods": ["tea"]})


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (record("a", {"fused": 0.5}, queries=8), "A: records of different evaluations, queries 9 and 8"),
        (record("a", {"fused": 0.5}, candidates="bm25"), "candidates fused and bm25"),
        (record("a", {"fused": 0.49}), "rerank different lists, nDCG@10 of fused is 0.5000 and 0.4900"),
    ],
)
def test_records_that_do_not_belong_together_are_refused(other, problem):
    with pytest.raises(InputError, match=problem):
        methods({**RECORDS, "a-more.json": other}, OPTIONS)


def page(records, pending=""):
    block = "collections: {A: [a.json, a-more.json], B: b.json}\nseconds: seconds.json\n"
    return results_page(f"# Measured\n\n```record\n{block}{pending}```\n", records)


def test_the_page_has_the_table_and_no_record_of_it_again():
    assert "| icr | 0.200 |" in page(RECORDS)
    assert "Further records" not in page(RECORDS)


def test_records_that_are_not_there_yet_are_named_or_stood_for():
    some = {name: of for name, of in RECORDS.items() if name in {"a.json", "b.json"}}
    with pytest.raises(InputError, match=r"template, line 3: no record 'a-more\.json'; there are: a\.json, b\.json"):
        page(some)
    with_note = page(some, "pending: Seconds are missing.\n")
    assert "| probe | 0.600 | 0.300 | 0.300 | 0.150 |" in with_note
    assert with_note.endswith("\n\nSeconds are missing.\n")
    assert page({}, "pending: Not measured.\n") == "# Measured\n\nNot measured.\n"
    one = results_page("```record\nfile: a.json\npending: Not measured.\n```\n", {})
    assert one == "Not measured.\n"


def test_collections_that_are_no_mapping_are_refused():
    with pytest.raises(InputError, match="template, line 1: the table of methods is YAML with `collections"):
        results_page("```record\ncollections: a.json\n```\n", RECORDS)
