"""Where everything stands in a prompt: the blocks of a request's documents, the positions of these and of the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag.attention.blocks import BlockIds
from rag.attention.decoder import Decoder
from rag.attention.prompt import Prompter
from rag.attention.types import AttentionRequest, BlockSpan, Layout
from rag.errors import InputError, LimitError
from rag.types import Document, Span


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A request in the engine's layout: the blocks to encode, where each window lies in them, from which position on
    the suffix stands, and the query's branch of it.
    """

    request: AttentionRequest
    blocks: tuple[BlockIds, ...]
    spans: tuple[BlockSpan, ...]
    suffix_start: int
    query: tuple[int, ...]


class PromptLayout:
    """Lays requests out for a decoder.

    In the ``block`` layout every window of a document is a block, and all share the positions of one window; in the
    ``causal`` layout all documents are one block.
    """

    def __init__(self, layout: Layout, prompter: Prompter, decoder: Decoder, window_tokens: int) -> None:
        self._layout, self._prompter, self._decoder, self._window_tokens = layout, prompter, decoder, window_tokens

    def blocks(self, documents: Sequence[Document]) -> list[BlockIds]:
        """What has to be encoded for these documents, in their order; a block may come twice."""
        return self._joined([window.ids for windows in self._prompter.blocks(documents) for window in windows])

    def lay_out(self, request: AttentionRequest) -> LaidOut:
        """The request's blocks and positions.

        Raises:
            InputError: none of its documents has any text.
            LimitError: it runs over the positions that the model was trained on.
        """
        spans: list[BlockSpan] = []
        windows: list[BlockIds] = []
        start = 0
        for number, of in enumerate(self._prompter.blocks(request.documents)):
            for window in of:
                spans.append(BlockSpan(number, Span(start, start + len(window.ids)), window.offsets, window.window))
                windows.append(window.ids)
                start += len(window.ids)
        if not windows:
            raise InputError(f"none of the {len(request.documents)} documents has any text to attend to")
        blocks = self._joined(windows)
        documents = self._window_tokens if self._layout == "block" else len(blocks[0])
        query = self._prompter.query(request.query)
        self._require_positions(documents, len(self._prompter.stem) + len(query))
        return LaidOut(request, tuple(blocks), tuple(spans), len(self._prompter.prefix) + documents, query)

    def _joined(self, windows: list[BlockIds]) -> list[BlockIds]:
        return [tuple(token for ids in windows for token in ids)] if self._layout == "causal" else windows

    def _require_positions(self, documents: int, query: int) -> None:
        total, most = len(self._prompter.prefix) + documents + query, self._decoder.positions
        if total > most:
            advice = (
                "use smaller windows" if self._layout == "block" else "give fewer documents or use the block layout"
            )
            raise LimitError(
                f"{self._layout} layout: {documents} positions of documents and {query} of the query make "
                f"{total} with the prompt's head; {self._decoder.name!r} reads {most}: {advice}"
            )
