"""``rag demo``: the whole product, through its real service, in one minute and in plain words."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
from rich.console import Console, Group
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from rag.api import demo_report
from rag.api.process import ServerProcess, running
from rag.config import Settings
from rag.demo_data import demo_corpus, demo_queries
from rag.errors import RagError
from rag.models import resolve
from rag.types import Document

BUDGET = 160
"""Tokens of text that the demo lets through."""


def run_demo(console: Console, settings: Settings, port: int = 0, *, documents: list[Document] | None = None) -> None:
    """Start the service, ask it two questions over the demo corpus, show what it does, stop it.

    Args:
        console: where to print.
        settings: of the service that is started.
        port: where it listens; 0 takes a free port.
        documents: a part of the demo corpus; None is all of it.

    Raises:
        RagError: a model cannot be had, the service does not start, or it answers with an error.
    """
    documents = demo_corpus() if documents is None else documents
    queries = demo_queries()
    console.print(Rule("rag demo"))
    console.print(_introduction(documents))
    _step(console, 1, "Models")
    _fetch(console, settings)
    _step(console, 2, "Service")
    with running(settings, port) as server:
        _await(console, server)
        first, second = queries[0], queries[1]
        _step(console, 3, "A first question: every passage is read for the first time")
        cold = _ask(console, server, first, documents)
        _show(console, cold, documents, first)
        _step(console, 4, "A second question over the same passages: they have been read already")
        warm = _ask(console, server, second, documents)
        _show(console, warm, documents, second, brief=True)
        console.print(_closing(cold, warm))
        with console.status("Stopping the service"):
            code = server.stop()
    console.print(f"The service finished its work and stopped (exit code {code}).\n")


def _step(console: Console, number: int, title: str) -> None:
    console.print(Rule(f"[bold]{number} of 4[/bold]  {title}", align="left", style="dim"))


def _introduction(documents: list[Document]) -> Text:
    titles = list(dict.fromkeys(document.title for document in documents))
    return Text(
        f"Your app has a question and {len(documents)} passages of text (here: from the Wikipedia articles "
        f"{', '.join(titles)}). An LLM should read the few sentences that answer it, not all of it.\n"
        "This demo starts the service, sends it both, and shows what it picks and why.\n"
    )


def _fetch(console: Console, settings: Settings) -> None:
    """Have both models on this machine, saying what happens meanwhile."""
    for kind, name in (("llm", settings.model), ("embedder", settings.embedder)):
        started = time.monotonic()
        with console.status(f"Looking for {name}") as status:
            found = resolve(name, kind=kind, progress=status.update)  # type: ignore[arg-type]
        console.print(f"  {name} ({kind}) from {found.source}, {time.monotonic() - started:.1f} s: {found.path}")
    console.print()


def _await(console: Console, server: ServerProcess) -> None:
    started = time.monotonic()
    with console.status(f"Starting {server.url}") as status:
        info = server.wait_ready(
            on_wait=lambda seconds: status.update(f"Starting {server.url} and loading the models ({seconds:.0f} s)")
        )
    model = info["model"]
    console.print(
        f"  Ready at {server.url} after {time.monotonic() - started:.1f} s: {model['name']}, "
        f"{model['layers']} layers of {model['heads_per_layer']} heads, {model['layout']} layout\n"
    )


def _ask(console: Console, server: ServerProcess, query: dict[str, Any], documents: list[Document]) -> dict[str, Any]:
    """One ``POST /v1/context`` over the whole corpus, with all of its passages as candidates."""
    passages = [{"id": document.id, "title": document.title, "text": document.text} for document in documents]
    body = {"query": query["text"], "documents": passages, "retrieve_k": len(passages), "budget": BUDGET}
    console.print(Text("  Question: ") + Text(query["text"], style="bold"))
    shown = {**body, "documents": f"… {len(passages)} passages …"}
    console.print(Text(f"  POST {server.url}/v1/context  {json.dumps(shown, ensure_ascii=False)}\n", style="dim"))
    with console.status("The service is working"):
        reply = httpx.post(f"{server.url}/v1/context", json=body, timeout=600)
    answer: dict[str, Any] = reply.json()
    if reply.status_code != 200:
        raise RagError(f"the service answered {reply.status_code}: {answer['error']['message']}")
    return answer


def _show(
    console: Console, response: dict[str, Any], documents: list[Document], query: dict[str, Any], brief: bool = False
) -> None:
    if not brief:
        console.print(demo_report.ranking(response, documents, query["relevant"], plain=console.color_system is None))
        console.print(_note("rank = after the model read them; ▲ ▼ = places moved from where cheap search had them"))
    console.print(demo_report.context(response))
    if not brief:
        console.print(Padding(Group(demo_report.left_out(response), Text(), demo_report.timings(response)), (1, 2)))


def _note(text: str) -> Text:
    return Text(f"  {text}\n", style="dim")


def _closing(cold: dict[str, Any], warm: dict[str, Any]) -> Padding:
    first, second = cold["timings"]["total"], warm["timings"]["total"]
    return Padding(
        Group(
            Text(f"\nThe second question took {second:.2f} s, the first {first:.2f} s:", style="bold"),
            demo_report.comparison(cold, warm),
            Text(
                "\nWhat a passage means to the model does not depend on the question, so it is kept and used again.\n"
                "Next: `rag serve` for your own application, `rag context --help` for your own files."
            ),
        ),
        (0, 2),
    )
