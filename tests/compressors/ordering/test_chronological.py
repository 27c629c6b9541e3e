from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.compressors.ordering.chronological import Chronological, read_date
from rag.errors import ConfigError, InputError
from rag.registry import build
from rag.types import Document, Query, ScoredDocument

QUERY = Query("What holds now?")


def dated(*values: Any, key: str = "date") -> list[ScoredDocument]:
    return [
        ScoredDocument(Document(str(i), "text", metadata={key: value}), float(-i), i + 1)
        for i, value in enumerate(values)
    ]


def ids(documents: list[ScoredDocument]) -> str:
    return "".join(item.document.id for item in documents)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-05-01", datetime(2024, 5, 1, tzinfo=UTC)),
        (" 2024-05 ", datetime(2024, 5, 1, tzinfo=UTC)),
        ("2024", datetime(2024, 1, 1, tzinfo=UTC)),
        (2024, datetime(2024, 1, 1, tzinfo=UTC)),
        ("20240501", datetime(2024, 5, 1, tzinfo=UTC)),
        ("2024-05-01T09:30:00Z", datetime(2024, 5, 1, 9, 30, tzinfo=UTC)),
        ("2024-05-01T09:30+02:00", datetime(2024, 5, 1, 7, 30, tzinfo=UTC)),
        ("2024-W18-3", datetime(2024, 5, 1, tzinfo=UTC)),
        (date(2024, 5, 1), datetime(2024, 5, 1, tzinfo=UTC)),
        (datetime(2024, 5, 1, 9, 30), datetime(2024, 5, 1, 9, 30, tzinfo=UTC)),
        ("", None),
        (None, None),
    ],
)
def test_iso_dates_are_read(value: Any, expected: datetime | None) -> None:
    assert read_date(value) == expected


@pytest.mark.parametrize("value", ["1st of May", "2024-13", "2024-02-30", "0000", 1714555800, True, 20.24, ["2024"]])
def test_what_is_no_date_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="accepted: ISO 8601"):
        read_date(value)


@given(st.datetimes(timezones=st.sampled_from([UTC, None])))
def test_every_moment_comes_back(moment: datetime) -> None:
    assert read_date(moment.isoformat()) == (moment if moment.tzinfo else moment.replace(tzinfo=UTC))


@given(st.lists(st.one_of(st.none(), st.dates()), max_size=8))
def test_by_date_with_the_undated_last(values: list[date | None]) -> None:
    given_ = dated(*values)
    placed = Chronological().order(QUERY, given_)
    found = [item.document.metadata["date"] for item in placed]
    known = [value for value in found if value is not None]
    assert sorted(map(id, placed)) == sorted(map(id, given_))
    assert known == sorted(known)
    assert found[len(known) :] == [None] * (len(found) - len(known))


def test_newest_first_keeps_ties_and_the_undated_last() -> None:
    given_ = dated("2020", None, "2021-03", "2020-01-01", "2022-01-01T00:00:00.000001Z")
    assert ids(Chronological().order(QUERY, given_)) == "03241"
    assert ids(build("ordering", "chronological", {"newest": "first"}, {}).order(QUERY, given_)) == "42031"


def test_years_before_our_era_of_timestamps_are_sorted_too() -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)
    assert ids(Chronological().order(QUERY, dated(first + timedelta(days=1), first, "9999-12-31"))) == "102"


def test_another_key_and_errors_that_name_the_document() -> None:
    assert ids(Chronological(key="published").order(QUERY, dated("2021", "2020", key="published"))) == "10"
    with pytest.raises(InputError, match=r"metadata 'date' of document '1': not a date: 'soon'"):
        Chronological().order(QUERY, dated("2020", "soon"))
    with pytest.raises(ConfigError, match="accepted: last, first"):
        Chronological(newest="middle")  # type: ignore[arg-type]
