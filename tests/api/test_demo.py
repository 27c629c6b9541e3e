"""The demo: its corpus is sound, and the whole of it runs."""

from __future__ import annotations

import io
import re

from rich.console import Console

from rag.api.demo import run_demo
from rag.config import Settings
from rag.demo_data import demo_corpus, demo_queries
from rag.types import check_unique_ids


def test_corpus_and_questions() -> None:
    documents, queries = demo_corpus(), demo_queries()
    check_unique_ids(documents)
    assert 40 <= len(documents) <= 80
    assert all(document.text.strip() and document.title for document in documents)
    assert 4 <= len(queries) <= 6
    known = {document.id for document in documents}
    for query in queries:
        assert query["text"].endswith("?")
        assert query["relevant"]
        assert set(query["relevant"]) <= known


def test_demo_runs_from_start_to_end() -> None:
    output = io.StringIO()
    documents = [document for document in demo_corpus() if document.title in ("Oxygen", "Amazon rainforest")]
    run_demo(Console(file=output, width=100), Settings(), documents=documents)
    shown = output.getvalue()
    assert demo_queries()[0]["text"] in shown
    assert "★ holds the answer" in shown
    assert "⟦" in shown
    assert "bubbles" in shown
    read = {name: re.search(rf"{name} question +([\d,]+) +(\d+) ", shown) for name in ("first", "second")}
    assert read["first"] is not None
    assert read["second"] is not None
    # The passages are read for the first question alone; the second finds them all.
    assert int(read["first"][1].replace(",", "")) > 100 * len(documents) / 2
    assert (read["second"][1], int(read["second"][2])) == ("0", len(documents))
    assert "exit code 0" in shown
