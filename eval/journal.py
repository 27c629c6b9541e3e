"""A file that receives every query's ranking as soon as it is there, so that an interrupted evaluation carries on.

JSON lines: a header that says what the results belong to, then one object per system and query.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from rag.errors import ArtefactError
from rag.eval.runs import Ranking

Done: TypeAlias = dict[tuple[str, str], tuple[Ranking, float]]
"""(system, query id) to its ranking and the seconds that took."""


def load(path: Path, header: Mapping[str, Any]) -> Done:
    """Results of an earlier evaluation, none where there is no file.

    A last line cut short by an interrupt is removed, from the file too.

    Raises:
        ArtefactError: the file has another header, or a damaged line.
    """
    if not path.exists():
        return {}
    data = path.read_bytes()
    complete, _, rest = data.rpartition(b"\n")
    done: Done = {}
    for number, line in enumerate(complete.splitlines(), start=1):
        try:
            record = json.loads(line)
            if number > 1:
                pairs = [(str(document), float(score)) for document, score in record["ranking"]]
                done[record["system"], record["query"]] = (pairs, float(record["seconds"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ArtefactError(f"{path}, line {number} is damaged ({error}); remove the file to start over") from None
        if number == 1 and record != header:
            raise ArtefactError(f"{path} holds results of {record}, this evaluation is {dict(header)}")
    if rest:
        with path.open("r+b") as file:
            file.truncate(len(data) - len(rest))
    return done


@contextmanager
def writer(path: Path | None, header: Mapping[str, Any]) -> Iterator[Callable[[str, str, Ranking, float], None]]:
    """A function ``write(system, query id, ranking, seconds)`` that appends one line and flushes it.

    Without a path it writes nothing.
    """
    if path is None:
        yield lambda *_: None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        if file.tell() == 0:
            file.write(json.dumps(header) + "\n")

        def write(system: str, query: str, ranking: Ranking, seconds: float) -> None:
            record = {"system": system, "query": query, "seconds": seconds, "ranking": ranking}
            file.write(json.dumps(record) + "\n")
            file.flush()

        yield write
