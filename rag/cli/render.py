"""A `ContextResult` for a terminal: kept sentences bold, the rest of a document dim."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rag.results import ContextDocument, ContextResult
from rag.types import Document, Span

PREVIEW_CHARACTERS = 400


def highlighted(text: str, spans: Sequence[Span], limit: int = PREVIEW_CHARACTERS) -> Text:
    """The document's text with its kept spans bold and the rest dim, about ``limit`` characters of it.

    The preview starts at the text's beginning, or a little before the first kept span where that lies
    too far behind; an ellipsis stands where text is not shown.
    """
    first = spans[0].start if spans else 0
    start = 0 if first < limit // 2 else first - limit // 8
    end = min(len(text), start + limit)
    shown = Text("… " if start else "", style="dim")
    at = start
    for span in spans:
        low, high = max(span.start, at), min(span.end, end)
        if low >= high:
            continue
        shown.append(_flat(text[at:low]), style="dim").append(_flat(text[low:high]), style="bold")
        at = high
    shown.append(_flat(text[at:end]), style="dim")
    return shown.append(" …", style="dim") if end < len(text) else shown


def _flat(text: str) -> str:
    """White space that would break the table's lines, as spaces."""
    return text.translate({ord(character): " " for character in "\r\n\t\v\f"})


def render(result: ContextResult, documents: Sequence[Document], console: Console | None = None) -> None:
    """Print the result; ``documents`` is the corpus it was made from."""
    (console or Console()).print(Group(_table(result, documents), *_footer(result)))


def _table(result: ContextResult, documents: Sequence[Document]) -> Table:
    table = Table("rank", "id", "score", "tokens", "text", title=Text(result.query), title_justify="left", expand=True)
    for column, ratio in enumerate((None, 2, None, None, 8)):
        table.columns[column].ratio = ratio
        table.columns[column].overflow = "fold"
    for item in result.results:
        tokens = f"{item.tokens_after}/{item.tokens_before}"
        table.add_row(
            str(item.rank), Text(item.id), f"{item.score:.3f}", tokens, _text(item, documents[item.index].text)
        )
    return table


def _text(item: ContextDocument, source: str) -> Text:
    title = Text(f"{item.title}\n" if item.title else "", style="italic")
    if item.empty:
        return title.append("(empty)", style="dim")
    return title.append_text(highlighted(source, item.spans))


def _footer(result: ContextResult) -> list[RenderableType]:
    usage = result.usage
    reasons: dict[str, int] = {}
    for item in result.dropped:
        reasons[item.reason] = reasons.get(item.reason, 0) + 1
    dropped = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in reasons.items()) or "none"
    stages = ", ".join(f"{trace.name} {trace.seconds:.2f} s" for trace in result.trace) or "none"
    lines = [
        f"tokens   {usage.context_tokens} in the context, {usage.corpus_tokens} in the corpus",
        f"dropped  {dropped}",
        f"stages   {stages}; {result.seconds:.2f} s in all",
    ]
    return [
        *(Text(line, style="dim") for line in lines),
        *(Text(f"warning: {note}", "yellow") for note in result.warnings),
    ]
