from __future__ import annotations

import pytest

from rag.errors import ArtefactError
from rag.eval.record_log import record_log

HEADER = {"evaluation": "words", "budgets": (0.1, 0.2)}


def test_records_are_there_again(tmp_path):
    path = tmp_path / "new" / "log.jsonl"
    with record_log(path, HEADER) as (done, write):
        assert done == []
        write({"word": "sea"})
        write({"word": "\ud800"})
    with record_log(path, HEADER) as (done, write):
        assert done == [{"word": "sea"}, {"word": "\ud800"}]
        write({"word": "salt"})
    assert len(path.read_text().splitlines()) == 4


@pytest.mark.parametrize("cut", [3, 1])
def test_a_line_cut_short_is_removed(tmp_path, cut):
    path = tmp_path / "log.jsonl"
    with record_log(path, HEADER) as (_, write):
        write({"word": "sea"})
    path.write_bytes(path.read_bytes()[:-cut])
    with record_log(path, HEADER) as (done, write):
        assert done == []
        write({"word": "salt"})
    with record_log(path, HEADER) as (done, _):
        assert done == [{"word": "salt"}]


def test_a_file_of_only_half_a_header_starts_anew(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"evalu')
    with record_log(path, HEADER) as (done, write):
        write({"word": "sea"})
    with record_log(path, HEADER) as (done, _):
        assert done == [{"word": "sea"}]


def test_another_header_and_damage_are_refused(tmp_path):
    path = tmp_path / "log.jsonl"
    with record_log(path, HEADER) as (_, write):
        write({"word": "sea"})
    with (
        pytest.raises(ArtefactError, match=r"'budgets': \[0.1, 0.2\].*'budgets': \[0.3\]") as error,
        record_log(path, HEADER | {"budgets": [0.3]}),
    ):
        pass
    assert "words" not in str(error.value)  # only what differs
    lines = path.read_text().splitlines()
    for broken in ("[1]", "{"):
        path.write_text("\n".join([lines[0], broken, *lines[1:]]) + "\n")
        with pytest.raises(ArtefactError, match="line 2 is damaged"), record_log(path, HEADER):
            pass


def test_without_a_path_nothing_is_kept():
    with record_log(None, HEADER) as (done, write):
        write({"word": "sea"})
    assert done == []
