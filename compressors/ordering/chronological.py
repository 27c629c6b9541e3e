"""Order by date: what a document's metadata says of when it was written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, Literal, get_args

from rag.attention.types import Attender
from rag.errors import ConfigError, InputError, shown
from rag.registry import register
from rag.types import Query, ScoredDocument

Newest = Literal["last", "first"]

_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d{2}))?")


def read_date(value: Any) -> datetime | None:
    """A moment from an ISO 8601 date (``2024-05-01``), a date with time, a month (``2024-05``) or a year (``2024``).

    A `date` or `datetime`, and a year as a whole number, are accepted too. What is left out is the earliest (a year
    is its first of January, a day its midnight) and a time without an offset is UTC. None, and a text that
    is empty or white space, is no date.

    Raises:
        InputError: anything else.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str | int | date) and not isinstance(value, bool):
        text = str(value).strip()
        coarse = _YEAR_OR_MONTH.fullmatch(text)
        try:
            moment = datetime(int(coarse[1]), int(coarse[2] or 1), 1) if coarse else datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    raise InputError(
        f"not a date: {shown(value)}; accepted: ISO 8601 such as 2024-05-01, 2024-05-01T09:30Z, 2024-05, 2024"
    )


@register("ordering", "chronological")
class Chronological:
    """By date, for questions about what came when, or what holds now.

    Args:
        key: the entry of a document's metadata that holds its date (see `read_date`).
        newest: ``last`` puts the newest next to the question; ``first`` is the other way round.

    Raises:
        ConfigError: ``newest`` is neither.
    """

    def __init__(self, *, key: str = "date", newest: Newest = "last") -> None:
        if newest not in get_args(Newest):
            raise ConfigError(f"newest {newest!r}; accepted: {', '.join(get_args(Newest))}")
        self._key = key
        self._newest = newest

    def order(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """Documents by date; equal dates keep their order, documents without a date come last, in their order.

        Raises:
            InputError: a value that is not a date; names the document.
        """
        del query, attender
        dated: list[tuple[datetime, ScoredDocument]] = []
        undated: list[ScoredDocument] = []
        for item in documents:
            moment = self._date(item)
            if moment is None:
                undated.append(item)
            else:
                dated.append((moment, item))
        dated.sort(key=lambda pair: pair[0], reverse=self._newest == "first")
        return [*(item for _, item in dated), *undated]

    def _date(self, item: ScoredDocument) -> datetime | None:
        try:
            return read_date(item.document.metadata.get(self._key))
        except InputError as error:
            raise InputError(f"metadata {self._key!r} of document {shown(item.document.id)}: {error}") from None
