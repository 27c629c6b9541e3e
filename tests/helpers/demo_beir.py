"""The demo corpus as a BEIR folder: some of its questions, their passages, and others that answer none of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rag.demo_data import demo_corpus, demo_queries


def write_demo(folder: Path, *, queries: int | None = None, others: int = 10, split: str = "test") -> Path:
    """Write the first ``queries`` questions (None: all), judged in ``split``, with ``others`` more passages."""
    asked = demo_queries()[:queries]
    gold = {name for query in asked for name in query["relevant"]}
    documents = demo_corpus()
    kept = [d for d in documents if d.id in gold] + [d for d in documents if d.id not in gold][:others]
    _write(folder / "corpus.jsonl", [{"_id": d.id, "title": d.title, "text": d.text} for d in kept])
    _write(folder / "queries.jsonl", [{"_id": query["id"], "text": query["text"]} for query in asked])
    (folder / "qrels").mkdir()
    rows = [f"{query['id']}\t{name}\t1" for query in asked for name in query["relevant"]]
    (folder / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    return folder


def _write(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("\n".join(map(json.dumps, records)))
