"""A JSONL file of finished work of any kind, so that an interrupted evaluation carries on where it stopped.

The first line is a header that says what the records belong to, each further line is one record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from rag.errors import ArtefactError

Record: TypeAlias = dict[str, Any]


@contextmanager
def record_log(path: Path | None, header: Mapping[str, Any]) -> Iterator[tuple[list[Record], Callable[[Record], None]]]:
    """The records of an earlier run, and a function that appends one and flushes it.

    Without a path there are none and nothing is written. A last line cut short by an interrupt is removed.

    Raises:
        ArtefactError: the file has another header, or a damaged line.
    """
    if path is None:
        yield [], lambda _: None
        return
    done = _load(path, json.loads(json.dumps(header))) if path.exists() else []
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:

        def write(record: Mapping[str, Any]) -> None:
            file.write(json.dumps(record) + "\n")
            file.flush()

        if file.tell() == 0:
            write(header)
        yield done, write


def _load(path: Path, header: Record) -> list[Record]:
    data = path.read_bytes()
    complete, _, rest = data.rpartition(b"\n")
    records: list[Record] = []
    for number, line in enumerate(complete.splitlines(), start=1):
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError(f"expected an object, given {type(record).__name__}")
        except ValueError as error:
            raise ArtefactError(f"{path}, line {number} is damaged ({error}); remove the file to start over") from None
        records.append(record)
    if records and records[0] != header:
        changed = [name for name in {**header, **records[0]} if header.get(name) != records[0].get(name)]
        there, here = ({name: of.get(name) for name in changed} for of in (records[0], header))
        raise ArtefactError(f"{path} holds results of {there}, this evaluation is {here}; give another file")
    if rest:
        with path.open("r+b") as file:
            file.truncate(len(data) - len(rest))
    return records[1:]
