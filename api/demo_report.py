"""What the demo prints: each function turns a response of ``POST /v1/context`` into something rich can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rag.types import Document

_REASONS = {
    "not_retrieved": "found by neither the words nor the meaning of the question (cheap search)",
    "below_top_n": "read by the model and ranked below the best {top_n}",
    "compressed_away": "among the best, but no sentence worth its tokens",
}
_STAGES = {
    "retriever": "search by words and by meaning",
    "reranker": "read candidates with the language model",
    "compressor": "choose sentences",
    "ordering": "order for the reader",
}


def ranking(
    response: Mapping[str, Any], documents: Sequence[Document], relevant: Collection[str], *, plain: bool = False
) -> Table:
    """The results, where cheap search had them, and their text with the kept sentences bold.

    ``plain`` is for output without styles: kept sentences stand in ⟦brackets⟧.
    """
    marks = ("⟦", "⟧") if plain else ("", "")
    table = Table(expand=True, show_lines=True, header_style="bold")
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("by words", justify="right", no_wrap=True)
    table.add_column("by meaning", justify="right", no_wrap=True)
    table.add_column(f"passage: [bold]{marks[0]}kept{marks[1]}[/bold] and [dim]left out[/dim]", ratio=1)
    table.add_column("tokens kept", justify="right", no_wrap=True)
    for item in sorted(response["results"], key=lambda item: item["rank"]):
        answers = Text(" ★ holds the answer", style="green") if item["id"] in relevant else Text("")
        passage = Text(item["id"], style="cyan") + answers + Text("\n")
        table.add_row(
            str(item["rank"]),
            _moved(item["scores"].get("bm25_rank"), item["rank"]),
            _moved(item["scores"].get("dense_rank"), item["rank"]),
            passage + _marked(documents[item["index"]].text, item["spans"], marks),
            f"{item['tokens_after']} of {item['tokens_before']}",
        )
    return table


def _moved(before: float | None, after: int) -> Text:
    """Where a cheaper search had a document, and how far it moved from there."""
    if before is None:
        return Text("–", style="dim")
    steps = int(before) - after
    arrow, style = ("▲", "green") if steps > 0 else ("▼", "red") if steps < 0 else ("=", "dim")
    return Text(f"{int(before)} ") + Text(f"{arrow}{abs(steps) or ''}", style=style)


def _marked(text: str, spans: Sequence[Sequence[int]], marks: tuple[str, str]) -> Text:
    """The whole text, its kept spans bold and between the marks, the rest dim."""
    opening, closing = marks
    marked = Text(style="dim")
    at = 0
    for start, end in spans:
        marked.append(text[at:start]).append(f"{opening}{text[start:end]}{closing}", style="bold not dim")
        at = end
    return marked.append(text[at:])


def context(response: Mapping[str, Any]) -> Panel:
    """The assembled context, as it would go into the reader model's prompt."""
    usage = response["usage"]
    share = usage["saved_tokens"] / usage["corpus_tokens"] if usage["corpus_tokens"] else 0.0
    tokens = f"{usage['context_tokens']} tokens, not {usage['corpus_tokens']:,} ({share:.0%} saved)"
    title = f"What your LLM gets to read: {tokens}"
    return Panel(Text(response["context"]), title=Text(title, style="bold"), title_align="left", border_style="green")


def timings(response: Mapping[str, Any]) -> Table:
    """What each stage did, and how long it took."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name, justify in (("stage", "left"), ("what it does", "left"), ("passages", "right"), ("seconds", "right")):
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=True)
    for stage in response["stages"]:
        passages = f"{stage['documents_in']} → {stage['documents_out']}"
        table.add_row(stage["stage"], _STAGES.get(stage["stage"], ""), passages, f"{stage['seconds']:.3f}")
    table.add_row("total", "", "", f"{response['timings']['total']:.3f}", style="bold")
    return table


def left_out(response: Mapping[str, Any]) -> Text:
    """How many passages are not in the context, by reason."""
    counts = Counter(item["reason"] for item in response["dropped"])
    top_n = len(response["results"]) + counts["compressed_away"]
    lines = [
        f"{counts[reason]:>4}  {words.format(top_n=top_n)}" for reason, words in _REASONS.items() if counts[reason]
    ]
    return Text("\n".join([f"Left out, each with its reason in the response: {sum(counts.values())}", *lines]))


def comparison(cold: Mapping[str, Any], warm: Mapping[str, Any]) -> Table:
    """The first and the second question side by side: what had to be read, and how long it took."""
    longest = max(cold["timings"]["total"], warm["timings"]["total"])
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("", "tokens read", "passages known", "seconds"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    table.add_column("")
    for name, response in (("first question", cold), ("second question", warm)):
        usage, seconds = response["usage"], response["timings"]["total"]
        bar = Text("█" * max(1, round(30 * seconds / longest)), style="cyan")
        table.add_row(name, f"{usage['encoded_tokens']:,}", str(usage["cached_blocks"]), f"{seconds:.2f}", bar)
    return table
