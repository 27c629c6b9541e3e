"""Server-sent events as a client reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx


def events(reply: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and data of each event, as they come."""
    name = ""
    for line in reply.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))
