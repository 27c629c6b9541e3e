"""Reading a whole corpus into a block store, so that later queries pay for nothing but themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import get_args

from rag.attention.blocks import BlockIds, block_key, token_batches
from rag.attention.disk import BlockStore
from rag.attention.heads import Task, default_heads
from rag.attention.store import StoredBlock
from rag.errors import ConfigError
from rag.types import Document

Cut = Callable[[Sequence[Document]], list[BlockIds]]
"""The blocks of some documents."""
Read = Callable[[Sequence[BlockIds]], dict[BlockIds, StoredBlock]]
"""Keys and values of the blocks of one batch."""
Progress = Callable[[int, int], None]
"""Called with how many documents are done and how many blocks were computed, from time to time and at the end."""

SEGMENT_BYTES = 128 << 20
"""A file is closed at this size, however few its blocks: what is not yet written is in memory."""


@dataclass(frozen=True, slots=True)
class PrecomputeReport:
    """What a run did: ``blocks`` were computed and stored (with ``tokens`` in all, in files of ``bytes``), and
    ``skipped`` were there already with enough layers, or twice in the corpus.
    """

    documents: int
    blocks: int
    skipped: int
    tokens: int
    seconds: float
    bytes: int


def precompute(
    documents: Iterable[Document],
    store: BlockStore,
    *,
    cut: Cut,
    read: Read,
    depth: int,
    batch_tokens: int,
    segment_blocks: int,
    progress: Progress | None = None,
) -> PrecomputeReport:
    """Store the lowest ``depth`` layers of every block of the documents that ``store`` lacks.

    Documents are taken ``segment_blocks`` at a time, and the blocks of each such group, shortest first, read in
    packed batches. The store is locked for one group at a time, and each group starts by looking at what is there:
    several processes over one corpus share the work. What was computed is written also when a group is interrupted.

    Raises:
        ConfigError: ``segment_blocks`` below 1.
        ArtefactError: a file cannot be written.
    """
    if segment_blocks < 1:
        raise ConfigError(f"segment_blocks {segment_blocks}; accepted: 1 and above")
    started = time.perf_counter()
    writer = _Writer(store, segment_blocks)
    done = seen = 0
    for group in _groups(documents, segment_blocks):
        blocks = cut(group)
        seen += len(blocks)
        if _missing(store, blocks, depth):
            with store.writing():
                missing = _missing(store, blocks, depth)
                left = total = sum(map(len, missing))
                with writer:
                    for batch in token_batches(missing, batch_tokens):
                        writer.add(read(batch))
                        left -= sum(map(len, batch))
                        if progress is not None:
                            progress(done + len(group) * (total - left) // total, writer.blocks)
        done += len(group)
        if progress is not None:
            progress(done, writer.blocks)
    seconds = time.perf_counter() - started
    return PrecomputeReport(done, writer.blocks, seen - writer.blocks, writer.tokens, seconds, writer.bytes)


def shipped_depth(fingerprint: str, template: str) -> int | None:
    """How many layers the shipped heads of a model read in the block layout; None where none are shipped for it
    and this prompt.
    """
    layers: list[int] = []
    for task in get_args(Task):
        with suppress(ConfigError):
            layers += [head.layer + 1 for head in default_heads(fingerprint, template, "block", task)]
    return max(layers, default=None)


class _Writer:
    """Collects blocks and writes them as files of bounded size; leaving it as a context writes what is left."""

    def __init__(self, store: BlockStore, segment_blocks: int) -> None:
        self.blocks = self.tokens = self.bytes = 0
        self._store, self._segment_blocks = store, segment_blocks
        self._waiting: dict[bytes, StoredBlock] = {}

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        self._write()

    def add(self, blocks: dict[BlockIds, StoredBlock]) -> None:
        for ids, block in blocks.items():
            self._waiting[block_key(ids)] = block
            self.blocks += 1
            self.tokens += block.tokens
            if len(self._waiting) == self._segment_blocks or self._size() >= SEGMENT_BYTES:
                self._write()

    def _size(self) -> int:
        return sum(block.nbytes for block in self._waiting.values())

    def _write(self) -> None:
        if self._waiting:
            self.bytes += self._store.append(self._waiting).stat().st_size
            self._waiting = {}


def _groups(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    stream = iter(documents)
    while group := list(islice(stream, size)):
        yield group


def _missing(store: BlockStore, blocks: Sequence[BlockIds], depth: int) -> list[BlockIds]:
    """The distinct blocks that are not stored with ``depth`` layers, shortest first."""
    return sorted((ids for ids in dict.fromkeys(blocks) if store.depth(block_key(ids)) < depth), key=len)
