"""``rag explain``: which heads and which words made the score of the best documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, cast

import typer

from rag.cli.options import Config, Device, Model, load_settings

if TYPE_CHECKING:
    from rich.text import Text

    from rag.attention.types import Engine
    from rag.rerankers.explain import Explained, Explanation, TokenShare
    from rag.types import Document

# Share of the strongest tokens up to which a style is used, strongest first.
_STYLES = ((0.04, "bold reverse"), (0.1, "bold"), (0.2, "underline"))


def explain(
    query: Annotated[str, typer.Argument(help="The question.")],
    files: Annotated[
        list[str], typer.Argument(help="JSONL, TXT or Markdown files, folders of them, - for JSONL on stdin.")
    ],
    top_n: Annotated[int, typer.Option(min=1, help="How many of the best documents to explain.")] = 1,
    top_heads: Annotated[int, typer.Option(min=1, help="How many heads to show of each.")] = 6,
    retrieve_k: Annotated[
        int | None, typer.Option(help="How many candidates are read together.", show_default=False)
    ] = None,
    reranker: Annotated[str | None, typer.Option(help="Whose heads, and whose order.", show_default=False)] = None,
    model: Model = None,
    device: Device = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print heads and tokens as JSON.")] = False,
) -> None:
    """Show the attention heads and the words that made the score of the best documents.

    The candidates are ranked as by `rag context`. What is taken apart is the attention score of the reranker's heads
    (the model's document heads where the reranker reads none): title and template have a share that is not shown in
    the text.
    """
    settings = load_settings(
        config,
        reranker=reranker,
        retrieve_k=retrieve_k,
        model=model,
        device=device,
        compressor="none",
        ordering="none",
        budget="none",
    )
    from rag.corpus import read_documents
    from rag.pipeline import Pipeline
    from rag.rerankers.explain import explain as take_apart
    from rag.types import Query

    documents = read_documents(files)
    pipeline = Pipeline(settings)
    ranked = pipeline.run(query, documents, top_n=settings.retrieve_k).results
    candidates = [documents[item.index] for item in ranked]
    specs = pipeline.specs()
    engine = cast("Engine", pipeline.engine)
    heads = specs[0].heads if specs else engine.default_heads("document")
    explanation = take_apart(engine, Query(query), candidates, heads)
    best = explanation.documents[:top_n]
    if as_json:
        shown = {"query": explanation.query, "documents": [asdict(item) for item in best]}
        typer.echo(json.dumps(shown, ensure_ascii=False, allow_nan=False, indent=1))
        return
    _print(explanation, best, candidates, top_heads)


def _print(explanation: Explanation, best: Sequence[Explained], documents: Sequence[Document], heads: int) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(explanation.query, style="bold"))
    for rank, (item, document) in enumerate(zip(best, documents, strict=False), start=1):
        strongest = ", ".join(f"{share.head} {share.value:+.4f}" for share in item.heads[:heads]) or "none"
        windows = f", the best of {item.windows} windows" if item.windows > 1 else ""
        console.print(Text(f"\n{rank}. {item.id}", style="bold"), Text(f"attention score {item.score:.4f}{windows}"))
        console.print(Text(f"heads (layer-head): {strongest}", style="dim"))
        if document.title:
            console.print(Text(document.title, style="italic"))
        console.print(marked(document.text, item))


def marked(text: str, item: Explained) -> Text:
    """The window of the text that was read, its strongest tokens marked: the more they add, the more strongly."""
    from rich.text import Text

    start, end = item.window
    shown = Text(text[start:end])
    for share, style in _styled(item.tokens):
        if share.span is not None:
            shown.stylize(style, share.span.start - start, share.span.end - start)
    return shown


def _styled(tokens: Sequence[TokenShare]) -> list[tuple[TokenShare, str]]:
    """The tokens of the text that add most, each with its style."""
    inside = sorted((token for token in tokens if token.span and token.value > 0), key=lambda token: -token.value)
    found = []
    for place, token in enumerate(inside):
        style = next((style for share, style in _STYLES if place < share * len(tokens)), None)
        if style is None:
            break
        found.append((token, style))
    return found
