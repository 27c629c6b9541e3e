"""The demo: its corpus is sound, and the whole of it runs."""

from __future__ import annotations

import io
import re

from rich.console import Console

from rag.api.demo import demo_corpus, demo_queries, run_demo
from rag.config import Settings
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
    documents = [document for document in demo_corpus() if document.title in ("Apollo program", "Amazon rainforest")]
    run_demo(Console(file=output, width=100), Settings(), documents=documents)
    shown = output.getvalue()
    assert demo_queries()[0]["text"] in shown
    assert "★ holds the answer" in shown
    assert "⟦" in shown
    assert "asphyxiated" in shown
    ratio = re.search(r"took 1/([\d.]+) of the time", shown)
    assert ratio is not None
    assert float(ratio[1]) > 1
    assert "exit code 0" in shown
