"""The passages and questions that come with the product, for its demo and for benchmarks that need no download."""

from __future__ import annotations

import json
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from rag.corpus import read_documents
from rag.types import Document


def demo_corpus() -> list[Document]:
    """The 60 passages of the demo (CC BY-SA 4.0, see ``rag/data/demo/ATTRIBUTION.md``)."""
    with resources.as_file(_data("corpus.jsonl")) as path:
        return read_documents([path])


def demo_queries() -> list[dict[str, Any]]:
    """The demo's questions: ``id``, ``text`` and the ids of the passages that answer them (``relevant``)."""
    lines = _data("queries.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _data(name: str) -> Traversable:
    return resources.files("rag") / "data" / "demo" / name
