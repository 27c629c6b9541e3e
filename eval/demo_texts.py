"""The texts of the demo corpus, as material for benchmarks that need no download."""

from __future__ import annotations

import json
from importlib import resources


def demo_texts() -> list[str]:
    """The text of every passage of the demo corpus."""
    lines = resources.files("rag").joinpath("data", "demo", "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]
