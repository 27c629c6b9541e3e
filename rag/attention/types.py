"""What the attention engine is asked for and what it gives back.

Shapes use H = heads asked for, R = rows kept per head, T = tokens of all blocks of one request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from rag.types import Document, Query, Span

if TYPE_CHECKING:
    import torch

Rows = Literal["mean", "last", "all"]
"""Which rows of the query (not of the words before it) are kept: their mean, the last one, or every one."""


Layout = Literal["block", "causal"]
"""Documents apart from each other, or all in one prompt (see `rag.attention.engine.AttentionEngine`)."""


class Head(NamedTuple):
    """One query head of one decoder layer, both counted from 0."""

    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.layer}-{self.head}"


HeadChoice = tuple[Head, ...] | Path | str | None
"""Heads as a stage's option gives them: (layer, head) pairs, the file of a head list, the name of a published list
(``published:llama-3.1-8b-nq``, see `rag.attention.published`), or None for the list that ships for the model."""


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """What a method reads: which heads, which query-side rows, and whether it needs calibration.

    ``heads`` None means every head of every layer. ``calibrated`` asks for a second suffix whose query
    is content-free ("N/A"), read over the same documents (Chen et al., ICLR 2025, section 3).
    """

    heads: tuple[Head, ...] | None = None
    rows: tuple[Rows, ...] = ("mean",)
    calibrated: bool = False

    def covers(self, other: AttentionSpec) -> bool:
        """True where a map made for this spec answers ``other`` too."""
        heads = self.heads is None or (other.heads is not None and set(other.heads) <= set(self.heads))
        return heads and set(other.rows) <= set(self.rows) and (self.calibrated or not other.calibrated)

    def union(self, other: AttentionSpec) -> AttentionSpec:
        """The smallest spec that covers both."""
        some = self.heads is not None and other.heads is not None
        heads = tuple(sorted({*(self.heads or ()), *(other.heads or ())})) if some else None
        rows = (*self.rows, *(row for row in other.rows if row not in self.rows))
        return AttentionSpec(heads, rows, self.calibrated or other.calibrated)


@dataclass(frozen=True, slots=True)
class AttentionRequest:
    """One query over one list of documents, and what is to be read."""

    query: Query
    documents: tuple[Document, ...]
    spec: AttentionSpec


@dataclass(frozen=True, slots=True)
class BlockSpan:
    """Where one window of one document lies in an `AttentionMap`.

    ``tokens`` is a range of the map's token axis; ``offsets`` gives, per token, the character range in
    the document's text it came from (``Span(-1, -1)`` for the title and the separators); ``window`` is
    the character range of the document's text that this block holds.
    """

    document: int
    tokens: Span
    offsets: tuple[Span, ...]
    window: Span


@dataclass(frozen=True)
class AttentionMap:
    """Attention of one query's rows to the tokens of its candidate documents.

    ``rows[name]`` is a float32 tensor on the CPU, shape (H, R, T) with R = 1 for "mean" and "last":
    post-softmax probabilities over everything the row sees (prefix, all documents, its own suffix), so
    a row sums to less than 1 over the documents. ``calibration`` holds the same for the content-free
    query, or None. ``heads[i]`` names axis 0. ``blocks`` are in input order of ``documents``; a long
    document has several, an empty document none. ``query_tokens`` are the strings of the R rows of
    "all".
    """

    documents: tuple[Document, ...]
    heads: tuple[Head, ...]
    rows: dict[Rows, torch.Tensor]
    calibration: dict[Rows, torch.Tensor] | None
    blocks: tuple[BlockSpan, ...]
    token_ids: torch.Tensor
    query_tokens: tuple[str, ...]
    cached_blocks: int
    encoded_tokens: int

    def windows(self) -> list[int]:
        """How many windows each document was read in (0: the document is empty)."""
        counts = [0] * len(self.documents)
        for block in self.blocks:
            counts[block.document] += 1
        return counts


class Attender(Protocol):
    """Anything that answers a spec: the engine itself, or a pass shared between the stages of a pipeline."""

    def attend(self, query: Query, documents: Sequence[Document], spec: AttentionSpec) -> AttentionMap:
        """Read the attention of ``query`` to ``documents``."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text in the model's own tokenizer (no special tokens)."""
        ...


class Engine(Attender, Protocol):
    """What stages need of the attention engine (`rag.attention.engine.AttentionEngine`), without importing torch."""

    def info(self) -> dict[str, Any]:
        """What is loaded and how it is used, as plain data: among it model, fingerprint, template and layout."""
        ...

    def all_heads(self) -> tuple[Head, ...]:
        """Every query head of the loaded model, layer by layer."""
        ...

    def default_heads(self, task: str) -> tuple[Head, ...]:
        """The heads that ship for the loaded model and ``task`` ("document" or "sentence")."""
        ...

    def default_weights(self, task: str) -> tuple[float, ...] | None:
        """What each of the `default_heads` counts; None: all alike."""
        ...

    def choose_heads(self, task: str, given: HeadChoice) -> tuple[Head, ...]:
        """The heads that a stage's option stands for; None is `default_heads`."""
        ...
