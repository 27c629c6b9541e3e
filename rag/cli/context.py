"""``rag context``: one query over files, as a table for people or JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli.options import Config, Device, Model, load_settings

if TYPE_CHECKING:
    from rag.budget import Budget
    from rag.config import Settings
    from rag.results import ContextResult
    from rag.types import Document

_STAGE = "Stage name, or none to turn it off."


def context(
    query: Annotated[str, typer.Argument(help="The question.")],
    files: Annotated[
        list[str], typer.Argument(help="JSONL, TXT or Markdown files, folders of them, - for JSONL on stdin.")
    ],
    top_n: Annotated[int | None, typer.Option(help="How many documents to keep.", show_default=False)] = None,
    retrieve_k: Annotated[int | None, typer.Option(help="How many candidates to rerank.", show_default=False)] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Text to keep: 512, '2000 characters', 50% or none (no bound).", show_default=False),
    ] = None,
    retriever: Annotated[str | None, typer.Option(help="Stage name.", show_default=False)] = None,
    reranker: Annotated[str | None, typer.Option(help=_STAGE, show_default=False)] = None,
    compressor: Annotated[str | None, typer.Option(help=_STAGE, show_default=False)] = None,
    ordering: Annotated[str | None, typer.Option(help=_STAGE, show_default=False)] = None,
    model: Model = None,
    device: Device = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Rank, compress and order documents for a question."""
    settings = load_settings(
        config,
        retriever=retriever,
        reranker=reranker,
        compressor=compressor,
        ordering=ordering,
        model=model,
        device=device,
    )
    from rag.config import read_budget
    from rag.corpus import read_documents

    bound = None if budget is None else read_budget(budget)
    documents = read_documents(files)
    result = _run(settings, query, documents, top_n=top_n, retrieve_k=retrieve_k, budget=bound)
    if as_json:
        typer.echo(json.dumps(asdict(result), ensure_ascii=False, allow_nan=False, indent=2))
        return
    from rag.cli.render import render

    render(result, documents)


def _run(
    settings: Settings,
    query: str,
    documents: list[Document],
    *,
    top_n: int | None,
    retrieve_k: int | None,
    budget: Budget | None,
) -> ContextResult:
    """Run the pipeline, saying on stderr what it is at (only where that is a terminal)."""
    from rich.console import Console

    from rag.pipeline import Pipeline

    with Console(stderr=True).status("loading models") as status:
        return Pipeline(settings).run(
            query,
            documents,
            top_n=top_n,
            retrieve_k=retrieve_k,
            budget=budget,
            on_stage=lambda trace, _: status.update(f"{trace.stage} took {trace.seconds:.2f} s"),
        )
