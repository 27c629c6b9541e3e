"""One attention pass for all stages of one request.

A softmax row is shared by every token it sees, so the attention to a subset of the documents that is
selected from a pass over more of them is not what a pass over the subset alone would give: each value
keeps the competition of all candidates. That is what the stages of a pipeline want (the candidates were
read together, once) and the reason why nothing is renormalised here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce

import torch

from rag.attention.reading import head_rows
from rag.attention.types import Attender, AttentionMap, AttentionSpec, BlockSpan, Rows
from rag.types import Document, Query, Span


@dataclass(frozen=True, slots=True)
class PassCount:
    """Account of one request: model passes run, calls answered from one, and what the passes read."""

    passes: int = 0
    reused: int = 0
    encoded_tokens: int = 0
    cached_blocks: int = 0

    def since(self, earlier: PassCount) -> dict[str, int]:
        """What was added after ``earlier``, by name; empty where no stage asked for attention."""
        added = {name: value - getattr(earlier, name) for name, value in asdict(self).items()}
        return {f"attention_{name}": value for name, value in added.items()} if any(added.values()) else {}


class SharedPass:
    """An `Attender` that runs the model once for all stages of one request.

    The first call runs ``engine`` with the union of ``specs`` and of what that call asks for; a later call
    for some of the same documents and a covered spec is answered by `select`. Anything else (new documents,
    another query, rows that no stage announced) is a pass of its own. Holds the maps of one request, so make
    one per request; not for use by several threads.
    """

    def __init__(self, engine: Attender, query: Query, specs: Iterable[AttentionSpec] = ()) -> None:
        self._engine = engine
        self._query = query
        self._planned = tuple(specs)
        self._maps: list[AttentionMap] = []
        self._specs: list[AttentionSpec] = []
        self._windows: dict[str, int] = {}
        self.count = PassCount()

    def attend(self, query: Query, documents: Sequence[Document], spec: AttentionSpec) -> AttentionMap:
        """Attention of ``query`` to ``documents``, in their order, for the heads and rows of ``spec``."""
        if query.text != self._query.text or query.history != self._query.history:
            return self._run(query, documents, spec)
        for done, answer in zip(self._specs, self._maps, strict=True):
            if done.covers(spec) and _holds(answer, documents):
                self.count = replace(self.count, reused=self.count.reused + 1)
                return select(answer, documents, spec)
        wanted = spec if self._maps else reduce(AttentionSpec.union, self._planned, spec)
        answer = self._run(query, documents, wanted)
        self._specs.append(wanted)
        self._maps.append(answer)
        return answer if wanted == spec else select(answer, documents, spec)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text in the model's own tokenizer."""
        return self._engine.count_tokens(texts)

    def windows(self, document: Document) -> int | None:
        """In how many windows the document was read; None where no pass has read it."""
        return self._windows.get(document.id)

    def _run(self, query: Query, documents: Sequence[Document], spec: AttentionSpec) -> AttentionMap:
        answer = self._engine.attend(query, documents, spec)
        self.count = PassCount(
            self.count.passes + 1,
            self.count.reused,
            self.count.encoded_tokens + answer.encoded_tokens,
            self.count.cached_blocks + answer.cached_blocks,
        )
        self._windows |= {
            document.id: count for document, count in zip(answer.documents, answer.windows(), strict=True)
        }
        return answer


def _holds(answer: AttentionMap, documents: Sequence[Document]) -> bool:
    """True where the map was made over all of ``documents`` (the same id with the same text)."""
    held = {document.id: (document.title, document.text) for document in answer.documents}
    return all(held.get(document.id) == (document.title, document.text) for document in documents)


def select(answer: AttentionMap, documents: Sequence[Document], spec: AttentionSpec) -> AttentionMap:
    """The part of a map that answers ``spec`` for ``documents``, in the order they are given.

    ``answer`` must hold all of ``documents`` and cover ``spec``. The token axis is made anew: block
    after block of the chosen documents. Nothing was read to make it, so ``encoded_tokens`` is 0.
    """
    heads = answer.heads if spec.heads is None else spec.heads
    head_places = head_rows(answer, spec.heads)
    held: dict[str, list[BlockSpan]] = {document.id: [] for document in answer.documents}
    for block in answer.blocks:
        held[answer.documents[block.document].id].append(block)
    blocks: list[BlockSpan] = []
    ranges: list[Span] = []
    width = 0
    for place, document in enumerate(documents):
        for block in held[document.id]:
            start, width = width, width + len(block.offsets)
            ranges.append(block.tokens)
            blocks.append(BlockSpan(place, Span(start, width), block.offsets, block.window))

    def part(rows: dict[Rows, torch.Tensor]) -> dict[Rows, torch.Tensor]:
        return {name: _heads(_columns(rows[name], ranges), head_places) for name in spec.rows}

    return AttentionMap(
        documents=tuple(documents),
        heads=tuple(heads),
        rows=part(answer.rows),
        calibration=part(answer.calibration) if spec.calibrated and answer.calibration is not None else None,
        blocks=tuple(blocks),
        token_ids=_columns(answer.token_ids, ranges),
        query_tokens=answer.query_tokens,
        cached_blocks=len(blocks),
        encoded_tokens=0,
    )


def _columns(values: torch.Tensor, ranges: Sequence[Span]) -> torch.Tensor:
    """The last axis at ``ranges``, one behind the other; as it is where that is all of it, in its order."""
    if [0, *(end for _, end in ranges)] == [*(start for start, _ in ranges), values.shape[-1]]:
        return values
    # Range by range: to look every token up takes several times as long.
    return torch.cat([values[..., :0], *(values[..., start:end] for start, end in ranges)], dim=-1)


def _heads(rows: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
    """The rows (H, R, T) of the heads at ``places``; as they are where that is all of them, in their order."""
    return rows if list(places) == list(range(len(rows))) else rows[list(places)]
