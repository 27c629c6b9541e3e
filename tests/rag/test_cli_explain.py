"""``rag explain`` with the real model: the words that made the score, for programs and for people."""

from __future__ import annotations

import json

import pytest
from rich.text import Text
from typer.testing import CliRunner

from rag.attention.types import Head
from rag.cli.app import app
from rag.cli.explain import marked
from rag.rerankers.explain import Explained, HeadShare, TokenShare
from rag.types import Span

LINES = (
    {"id": "lamp", "text": "The lighthouse lamp burned whale oil until 1911."},
    {"id": "deep", "title": "Harbour", "text": "The harbour is fourteen metres deep, so large ships can enter it."},
    {"id": "empty", "text": " "},
)


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_RETRIEVER", "bm25")  # the embedder has no part in this
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in LINES))
    return str(path)


def test_as_json_the_parts_add_up(corpus):
    done = CliRunner().invoke(app, ["explain", "How deep is the harbour?", corpus, "--top-n", "2", "--json"])
    assert done.exit_code == 0, done.output
    deep, lamp = json.loads(done.stdout)["documents"]
    assert (deep["id"], lamp["id"]) == ("deep", "lamp")
    assert sum(share["value"] for share in deep["tokens"]) == pytest.approx(deep["score"], abs=1e-5)
    assert sum(share["value"] for share in deep["heads"]) == pytest.approx(deep["score"], abs=1e-5)
    text = LINES[1]["text"]
    inside = [text[slice(*share["span"])].strip() for share in deep["tokens"] if share["span"]]
    assert "".join(inside) == text.replace(" ", "")


def test_for_people_the_query_the_heads_and_the_text(corpus):
    done = CliRunner().invoke(app, ["explain", "How deep is the harbour?", corpus, "--top-heads", "2"])
    assert done.exit_code == 0, done.output
    assert "How deep is the harbour?" in done.output
    assert "1. deep" in done.output
    assert "fourteen metres deep" in done.output
    assert "lamp" not in done.output


def test_the_strongest_words_are_marked_most_strongly():
    text = "one two three four five six seven eight nine ten"
    starts = [0, *(i + 1 for i, letter in enumerate(text) if letter == " ")]
    spans = [Span(start, end) for start, end in zip(starts, [*(s - 1 for s in starts[1:]), len(text)], strict=True)]
    values = [0.0, 0.9, -0.5, 0.1, 0.5, 0.0, 0.0, 0.0, 0.0, 0.2]
    tokens = tuple(TokenShare(span, value) for span, value in zip(spans, values, strict=True))
    item = Explained("d", 1.2, Span(0, len(text)), 1, (HeadShare(Head(0, 0), 1.2),), tokens)
    shown = marked(text, item)
    assert isinstance(shown, Text)
    assert shown.plain == text
    assert [(text[s.start : s.end], s.style) for s in shown.spans] == [("two", "bold reverse"), ("five", "underline")]
    window = marked(text, Explained("d", 1.2, Span(4, 13), 2, (), tokens[1:3]))
    assert window.plain == "two three"
    assert [(s.start, s.end) for s in window.spans] == [(0, 3)]
