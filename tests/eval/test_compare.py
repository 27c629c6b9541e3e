from __future__ import annotations

import pytest
from records import words_collection, words_record

from rag.errors import InputError
from rag.eval.compare import compare_records
from rag.eval.report_record import read_record
from rag.types import Query


@pytest.fixture(scope="module")
def record():
    return words_record()


def _renamed(record, names):
    """The record with the figures of one system under the name of another."""
    systems = [{**row, "system": names.get(row["system"], row["system"])} for row in record["systems"]]
    questions = [
        {**of, "values": {names.get(name, name): value for name, value in of["values"].items()}}
        for of in record["questions"]
    ]
    return {**record, "systems": systems, "questions": questions, "identities": {}}


def test_the_same_record_twice_has_no_change(record):
    found = compare_records(record, record)
    assert found.conditions == ()
    assert {change.difference for change in found.changes} == {0.0}
    assert {change.p_randomisation for change in found.changes} == {1.0}


def test_a_change_is_tested_over_the_same_queries(record):
    swapped = _renamed(record, {"blind": "bm25", "bm25": "blind"})
    found = compare_records(record, swapped)
    change = next(of for of in found.changes if (of.system, of.measure) == ("blind", "RR@10"))
    assert change.queries == 10
    assert (change.before, change.after) == pytest.approx((record["systems"][0]["RR@10"], 1.0))
    assert change.difference == pytest.approx(change.after - change.before, abs=1e-5)
    assert change.interval.low < change.difference < change.interval.high
    assert change.p_randomisation < 0.05


def test_what_else_changed_is_named(record):
    later = {
        **record,
        "data": "other",
        "versions": {**record["versions"], "torch": "99"},
        "identities": {**record["identities"], "bm25": {"name": "bm25", "options": {"k1": 2}}},
        "engines": [{"model": "m", "fingerprint": "f"}],
    }
    changed = {name: (old, new) for name, old, new in compare_records(record, later).conditions}
    assert changed["data"] == (record["data"], "other")
    assert changed["version of torch"][1] == "99"
    assert changed["bm25: options.k1"] == ("not recorded", "2")
    assert changed["models"] == ("not recorded", "m (f)")


def test_queries_with_the_same_id_of_other_collections_are_not_paired(record):
    source = words_collection()
    other = words_record(
        words_collection(name="other", queries=tuple(Query(f"why {of.text}", of.id) for of in source.queries))
    )
    found = compare_records(record, other)
    assert {change.queries for change in found.changes} == {0}
    assert {change.p_randomisation for change in found.changes} == {None}
    assert "collection" in {name for name, _, _ in found.conditions}


def test_nothing_in_common_is_refused(record, tmp_path):
    with pytest.raises(InputError, match="no system in common: blind"):
        compare_records(record, _renamed(record, {"blind": "x", "bm25": "y", "<b>mixed</b>": "z"}))
    (tmp_path / "engine.json").write_text('{"benchmark": "engine", "sizes": []}')
    with pytest.raises(InputError, match=r"engine\.json is no record"):
        read_record(tmp_path / "engine.json")
