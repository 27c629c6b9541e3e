from __future__ import annotations

import csv
import io

import pytest
from records import words_collection, words_record

from rag.eval import report_tables
from rag.eval.failures import differences
from rag.eval.report_record import baseline_of, measures_of, read_record, write_record


@pytest.fixture(scope="module")
def record():
    return words_record()


def test_a_record_comes_back_from_its_file(record, tmp_path):
    file = tmp_path / "record.json"
    write_record(file, record)
    write_record(tmp_path / "record.json.gz", record)
    assert read_record(file) == read_record(tmp_path / "record.json.gz") == record
    # One query a line, so that two versions of a record can be compared by any tool.
    assert sum(line.startswith('  {"id": "q') for line in file.read_text().splitlines()) == 10


def test_a_record_holds_every_query_with_values_and_graded_rankings(record):
    question = record["questions"][3]
    assert (question["id"], question["text"], question["relevant"]) == ("q3", "tide", 1)
    assert question["values"]["bm25"] == {"nDCG@10": 1.0, "RR@10": 1.0}
    assert question["values"]["blind"]["RR@10"] == 0.25
    assert question["rankings"]["bm25"][0] == ["d3", 2]
    assert question["rankings"]["blind"][:2] == [["d0", None], ["d1", None]]
    assert record["titles"]["d3"] == "On tide"


def test_records_of_before_say_their_measures_and_baseline_too():
    old = {
        "collection": "c",
        "queries": 2,
        "systems": [
            {"system": "a", "nDCG@10": 0.5, "p50 s": 0.1},
            {"system": "b", "nDCG@10": 0.6, "nDCG@10 diff": 0.1, "nDCG@10 p": 0.03, "p50 s": 0.1},
        ],
    }
    assert (measures_of(old), baseline_of(old)) == (["nDCG@10"], "a")
    assert report_tables.summary(old).rows[1] == ("b", "0.6000", "+0.1000", "0.0300", "")
    assert report_tables.failures(old, 3) == [("b", [], [])]
    assert "0.6000" in report_tables.markdown(old)


def test_the_summary_has_intervals_and_significance(record):
    table = report_tables.summary(record)
    assert table.headings == ("system", "nDCG@10", "RR@10", "nDCG@10 - blind", "p (randomisation)", "p (t test)")
    blind, bm25, _ = table.rows
    assert blind[3:] == ("", "", "")
    assert bm25[1] == "1.0000 [1.000, 1.000]"
    row = record["systems"][1]
    assert bm25[3].startswith(f"{row['nDCG@10 diff']:+.4f} [+")
    assert row["nDCG@10 diff low"] < row["nDCG@10 diff"] < row["nDCG@10 diff high"]
    assert bm25[4] == report_tables.p_value(row["nDCG@10 p"])


def test_small_p_values_are_bounds():
    assert report_tables.p_value(0.00004) == "< 0.0001"
    assert report_tables.p_value(0.0001) == "0.0001"


def test_losses_and_gains_come_largest_first_with_both_rankings(record):
    losses, gains = differences(record, "blind", "bm25", "RR@10", 3)
    assert [item.query for item in losses] == ["q9", "q8", "q7"]
    assert losses[0].difference == pytest.approx(1 / 10 - 1)
    assert losses[0].baseline_ranking[0].id == "d9"
    assert losses[0].baseline_ranking[0].grade == 1
    assert losses[0].ranking[0].title.startswith("</script>")
    assert gains == []
    mirrored = differences(record, "bm25", "blind", "RR@10", 3)
    assert ([item.query for item in mirrored[1]], mirrored[0]) == (["q9", "q8", "q7"], [])


def test_rankings_stand_side_by_side(record):
    (loss, *_), _ = differences(record, "blind", "bm25", "RR@10", 1)
    table = report_tables.side_by_side(loss)
    assert table.headings == ("rank", "bm25", "blind")
    assert table.rows[0][1] == "(1) d9: On coast"
    assert len(table.rows) == 10
    assert table.rows[9][1:] == ("", "(1) d9: On coast")  # bm25 gave five documents only


def test_csv_has_every_figure_in_full(record):
    rows = list(csv.DictReader(io.StringIO(report_tables.as_csv(record))))
    assert [row["system"] for row in rows] == ["blind", "bm25", "<b>mixed</b>"]
    assert float(rows[1]["nDCG@10 diff"]) == record["systems"][1]["nDCG@10 diff"]
    assert float(rows[1]["retrieval p50 s"]) == 0.002
    assert rows[0]["retrieval p50 s"] == ""


def test_markdown_escapes_what_comes_from_data(record):
    text = report_tables.markdown(record)
    assert "<script" not in text
    assert "<b>" not in text
    rows = [line for line in text.splitlines() if line.startswith("|") and "alert" in line]
    assert rows
    assert all(line.replace("\\|", "").count("|") == 4 for line in rows)  # a title's bar opens no cell
    assert "largest gains" in text


def test_a_synthetic_collection_says_so_in_every_report():
    record = words_record(words_collection(synthetic=True))
    assert "synthetic" in report_tables.markdown(record)
