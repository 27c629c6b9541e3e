"""The attention engine: documents are read once and kept; a query pays only for its own tokens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from rag.attention import published
from rag.attention.adapter import AttentionAdapter
from rag.attention.blocks import BlockEncoder, BlockGather, BlockIds, Scratch, block_key
from rag.attention.decoder import Decoder
from rag.attention.disk import BlockStore, StoreIdentity, frame_digest, open_for_lookups
from rag.attention.heads import HeadList, default_heads
from rag.attention.memory import give_back_freed, in_halves
from rag.attention.passes import LayerStack, ReadPass, run
from rag.attention.precompute import PrecomputeReport, Progress, precompute, shipped_depth
from rag.attention.prompt import Prompter
from rag.attention.store import BlockCache, CacheStats, Precision, StoredBlock
from rag.attention.suffix import ReadGroup, Suffix, branch
from rag.attention.template import DEFAULT_TEMPLATE, Template
from rag.attention.types import AttentionMap, AttentionSpec, BlockSpan, Head, HeadChoice, Rows
from rag.errors import ConfigError, InputError, LimitError, ModelOutputError
from rag.models.load import DType
from rag.sentences import sentences
from rag.types import Document, Query, Span

Layout = Literal["block", "causal"]


@dataclass(frozen=True, slots=True)
class AttentionRequest:
    """One query over one list of documents, and what is to be read."""

    query: Query
    documents: tuple[Document, ...]
    spec: AttentionSpec


@dataclass(frozen=True, slots=True)
class _LaidOut:
    """A request in the engine's layout: the blocks to encode, where each window lies in them, and the query's branch
    of the suffix.
    """

    blocks: tuple[BlockIds, ...]
    spans: tuple[BlockSpan, ...]
    query: tuple[int, ...]


class AttentionEngine:
    """Reads the attention of queries to documents through any decoder that transformers loads.

    In the ``block`` layout each document is isolated (it sees the prefix and itself) and all documents
    share positions: scores do not depend on the documents' order, and a document's keys and values are
    computed once and reused by every later query. In the ``causal`` layout all documents stand in one
    prompt, as in the published in-context reranking; what is cached is the whole list.

    Args:
        model: a model name (see `rag.models.resolve`), or a `Decoder` that is already loaded.
        adapter: file of a trained `AttentionAdapter` that is put over the model (a `Decoder` given stays as it is).
            Its heads are the default ones of the tasks it was trained for, and blocks of the bare model are not its.
        device, dtype: where a named model is loaded and in which type; unused for a `Decoder`. bfloat16 is for
            accelerators: a CPU without instructions for it (AVX2 only) is slower with it than in float32.
        window_tokens: most tokens of one block; longer documents are read in overlapping windows.
        overlap_tokens: how much of a window is repeated in the next, at most.
        cache_bytes: budget of the block cache.
        cache_precision: storage type of cached keys and values.
        store: folder of a block store (see `precompute`): blocks that are not in memory are looked up there. The
            engine only reads it: what a query has to compute is kept in memory alone.
        batch_tokens: most document tokens in one encoding pass; None means 1,024 on a CPU, whose caches these fit in,
            and 16,384 elsewhere. A batch that does not fit in memory is halved.
        threads: CPU threads of torch, process-wide; None leaves them as they are.
        split: cuts text into sentences; windows of long documents end on their borders.

    All methods may be called from many threads; the model runs for one at a time.
    """

    def __init__(
        self,
        model: str | Decoder = "smollm2-135m",
        *,
        adapter: Path | None = None,
        layout: Layout = "block",
        device: str = "cpu",
        dtype: DType = "float32",
        template: Template = DEFAULT_TEMPLATE,
        window_tokens: int = 512,
        overlap_tokens: int = 64,
        cache_bytes: int = 2 << 30,
        cache_precision: Precision = "float32",
        store: Path | None = None,
        batch_tokens: int | None = None,
        threads: int | None = None,
        split: Callable[[str], Sequence[Span]] = sentences,
    ) -> None:
        if layout not in get_args(Layout):
            raise ConfigError(f"layout {layout!r}; accepted: {', '.join(get_args(Layout))}")
        if not 0 <= overlap_tokens < window_tokens // 2:
            raise ConfigError(
                f"overlap of {overlap_tokens} tokens with windows of {window_tokens}; "
                "accepted: 0 up to less than half a window"
            )
        if threads is not None:
            torch.set_num_threads(threads)
        self.decoder = Decoder.load(model, device=device, dtype=dtype) if isinstance(model, str) else model
        self.adapter: AttentionAdapter | None = None
        if adapter is not None:
            self.adapter = AttentionAdapter.load(adapter).check(self.decoder.fingerprint, template.digest(), layout)
            self.decoder = self.adapter.apply(self.decoder)
        self.layout = layout
        self.template = template
        self.window_tokens = window_tokens
        self._model = self.decoder.model
        if layout == "block":
            self.decoder.require_window(window_tokens)
            self.decoder.require_budget(cache_bytes, cache_precision, window_tokens)
        self._prompter = Prompter(self.decoder.tokenizer, template, split, window_tokens, overlap_tokens)
        if batch_tokens is None:
            batch_tokens = 1024 if str(self._model.device) == "cpu" else 16384
        self._batch_tokens = batch_tokens
        self._identity = StoreIdentity(self._numbers(), frame_digest(self._prompter.prefix, template), cache_precision)
        self._disk: BlockStore | None = None
        if store is not None:
            self._require_block_layout()
            self._disk = open_for_lookups(store, self._identity, self._model.device)  # type: ignore[arg-type]
        self._cache = BlockCache(cache_bytes, cache_precision, self._disk)
        self._encoder = BlockEncoder(self._model, self._prompter.prefix, self._cache, batch_tokens)
        self._scratch = Scratch()
        self._lock = threading.RLock()

    # ---- what the model is -------------------------------------------------------------------------------------

    @property
    def layers(self) -> int:
        """Decoder layers of the model."""
        return self.decoder.layers

    @property
    def heads_per_layer(self) -> int:
        """Query heads of each layer."""
        return self.decoder.heads_per_layer

    def all_heads(self) -> tuple[Head, ...]:
        """Every query head of the model, layer by layer."""
        return self.decoder.all_heads()

    def default_heads(self, task: str) -> tuple[Head, ...]:
        """The heads of this model for ``task`` ("document" or "sentence"): the adapter's, else the shipped ones
        (see `rag.attention.heads`).
        """
        if self.adapter is not None and task in self.adapter.info.tasks:
            return self.adapter.info.tasks[task].heads
        return default_heads(self.decoder.fingerprint, self.template.digest(), self.layout, task)

    def default_weights(self, task: str) -> tuple[float, ...] | None:
        """What each of the `default_heads` counts; None: all alike (there is no adapter for ``task``)."""
        if self.adapter is None or task not in self.adapter.info.tasks:
            return None
        return self.adapter.info.tasks[task].weights

    def choose_heads(self, task: str, given: HeadChoice) -> tuple[Head, ...]:
        """Heads from a stage's option: pairs as they are, those of a `HeadList` file or of a published list, or the
        shipped ones.

        Raises:
            ArtefactError: a file that is no head list, or one for another model, wording, layout or task; a
                published list for a model of another shape.
            ConfigError: none are given and none ship, or a published list that is not known.
            InputError: a head outside the model.
        """
        if given is None:
            return self.default_heads(task)
        if isinstance(given, str | Path) and str(given).startswith(published.PREFIX):
            listed = published.find(str(given))
            listed.check(self.decoder.architecture, self.layers, self.heads_per_layer)
            published.warn_of_prompt(listed)
            return listed.heads
        if isinstance(given, str | Path):
            found = HeadList.load(Path(given))
            return found.check(self.decoder.fingerprint, self.template.digest(), self.layout, task).heads
        heads = tuple(Head(*head) for head in given)
        self.decoder.require_heads(heads)
        return heads

    def info(self) -> dict[str, Any]:
        """What is loaded and how it is used, as plain data."""
        return {
            "model": self.decoder.name,
            "fingerprint": self.decoder.fingerprint,
            "architecture": self.decoder.architecture,
            "layers": self.decoder.layers,
            "heads": self.decoder.heads_per_layer,
            "device": str(self._model.device),
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "layout": self.layout,
            "window_tokens": self.window_tokens,
            "template": self.template.digest(),
            "cache_precision": self._cache.precision,
        }

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text in the model's tokenizer, without special tokens."""
        return self._prompter.count(texts)

    def cache_stats(self) -> CacheStats:
        """Hits, misses, evictions and size of the block cache."""
        return self._cache.stats()

    def unread_tokens(self, documents: Sequence[Document], spec: AttentionSpec) -> int:
        """How many tokens of the documents a pass would have to read for the first time: those not in memory."""
        heads = self.all_heads() if spec.heads is None else spec.heads
        depth = max(head.layer for head in heads) + 1 if heads else 1
        blocks = [window.ids for windows in self._prompter.blocks(documents) for window in windows]
        if self.layout == "causal":
            blocks = [tuple(token for ids in blocks for token in ids)]
        return sum(len(ids) for ids in set(blocks) if not self._cache.holds(block_key(ids), depth))

    def take_blocks(self, other: AttentionEngine) -> None:
        """Keep what another engine has in memory, in this one's cache precision: blocks are read once to compare
        precisions.

        Raises:
            ConfigError: the other engine has another model, another layout or other words around the documents.
        """
        mine, theirs = (
            (engine.layout, replace(engine._identity, precision=self._cache.precision)) for engine in (self, other)
        )
        if mine != theirs:
            raise ConfigError(f"blocks of another engine ({theirs}); accepted: those made with {mine}")
        self._cache.take(other._cache)

    def clear_cache(self) -> None:
        """Forget all cached blocks."""
        self._cache.clear()

    # ---- reading -----------------------------------------------------------------------------------------------

    def attend(self, query: Query, documents: Sequence[Document], spec: AttentionSpec) -> AttentionMap:
        """Attention of one query to its documents; see `attend_many`."""
        return self.attend_many([AttentionRequest(query, tuple(documents), spec)])[0]

    def attend_many(
        self, requests: Sequence[AttentionRequest], *, between: Callable[[], None] | None = None
    ) -> list[AttentionMap]:
        """Read several queries in one forward pass.

        Requests over the same list of documents share the gathering of keys and values, the suffix's stem
        and the calibration rows. Every map holds the heads of all the requests together. Where memory is
        short, the requests are read in smaller batches. ``between`` is called, in this thread, between two encoding
        passes over documents that are not known yet; it may call this engine, so that a long list does not keep
        short ones waiting.

        Raises:
            InputError: a head outside the model, or a request without any document text.
            LimitError: a prompt longer than the model's positions (in the causal layout, too many documents).
            ModelOutputError: the model gave NaN or infinity.
        """
        if not requests:
            return []
        heads = self._heads(requests)
        maps = in_halves(lambda part: self._attend(part, heads, between), requests)
        if any(answer.encoded_tokens for answer in maps):
            give_back_freed()
        return maps

    def _attend(
        self, requests: Sequence[AttentionRequest], heads: tuple[Head, ...], between: Callable[[], None] | None
    ) -> list[AttentionMap]:
        depth = heads[-1].layer + 1
        laid = [self._lay_out(request) for request in requests]
        for item in laid:
            self._require_positions(item)
        together: dict[tuple[tuple[BlockIds, ...], tuple[Rows, ...]], list[int]] = {}
        for number, (request, item) in enumerate(zip(requests, laid, strict=True)):
            together.setdefault((item.blocks, request.spec.rows), []).append(number)
        with self._lock, torch.inference_mode():
            blocks, fresh = self._encoder.encode([ids for item in laid for ids in item.blocks], depth, between)
            prefix = self._encoder.prefix(depth)
            groups: list[ReadGroup] = []
            packed: list[int] = []
            positions: list[int] = []
            for (ids, rows), members in together.items():
                calibrated = any(requests[i].spec.calibrated for i in members)
                suffix = self._suffix([laid[i].query for i in members], calibrated)
                start = prefix.tokens + self._document_positions(ids)
                groups.append(self._group(suffix, [blocks[i] for i in ids], prefix, rows, len(packed), start))
                packed += suffix.ids
                positions += (start + offset for offset in suffix.offsets)
            reading = ReadPass(groups, heads)
            run(self._model, packed, positions, reading)
        maps: dict[int, AttentionMap] = {}
        for members, kept in zip(together.values(), reading.rows, strict=True):
            stacked = [{name: _finite(torch.stack(parts).cpu()) for name, parts in rows.items()} for rows in kept]
            for place, i in enumerate(members):
                calibration = stacked[len(members)] if requests[i].spec.calibrated else None
                maps[i] = self._map(requests[i], laid[i], heads, stacked[place], calibration, fresh)
        return [maps[i] for i in range(len(requests))]

    # ---- the disk tier -----------------------------------------------------------------------------------------

    def precompute(
        self,
        documents: Iterable[Document],
        store: Path,
        *,
        depth: int | None = None,
        progress: Progress | None = None,
        segment_blocks: int = 256,
        rebuild: bool = False,
    ) -> PrecomputeReport:
        """Read documents into the block store in the folder ``store``, which is made where there is none.

        Goes on where an earlier run stopped, however it was stopped: blocks that are there with enough layers are
        skipped. Any number of processes may do this at once, and queries be answered meanwhile. Memory is bounded
        whatever the number of documents, which may come from a generator. The cache in memory is left alone.

        Args:
            documents: a corpus.
            store: the folder; an engine made with ``store=`` this folder answers queries from it.
            depth: how many layers, from the bottom, are stored; None means as many as the shipped heads of the model
                read, or all where none are shipped. A query that reads more layers computes its blocks itself.
            progress: called as ``progress(documents done, blocks computed)``, about once per batch.
            segment_blocks: most blocks per file, and documents per group: a kill loses at most one group.
            rebuild: check every file of the store first and drop damaged ones, whose blocks are computed again.

        Raises:
            ConfigError: ``depth`` or ``segment_blocks`` out of range, or the engine has the causal layout.
            ArtefactError: the store was made with something else, cannot be written, or (without ``rebuild``)
                has a damaged file, which is named.
        """
        self._require_block_layout()
        if depth is None and self.adapter is not None:
            depth = self.adapter.info.exit_layer + 1
        elif depth is None:
            depth = shipped_depth(self.decoder.fingerprint, self.template.digest())
        layers = self.layers if depth is None else depth
        if not 1 <= layers <= self.layers:
            raise ConfigError(f"depth {layers}; accepted: 1 to {self.layers} layers")

        def read(batch: Sequence[BlockIds]) -> dict[BlockIds, StoredBlock]:
            with self._lock, torch.inference_mode():
                return self._encoder.read(batch, layers)

        blocks = BlockStore.open_or_create(store, self._identity)
        blocks.require_whole(rebuild=rebuild)
        report = precompute(
            documents,
            blocks,
            cut=lambda some: [[window.ids for window in windows] for windows in self._prompter.blocks(some)],
            read=read,
            depth=layers,
            batch_tokens=self._batch_tokens,
            segment_blocks=segment_blocks,
            progress=progress,
        )
        if self._disk is not None:
            self._disk.refresh()
        return report

    # ---- parts -------------------------------------------------------------------------------------------------

    def _numbers(self) -> str:
        """What the numbers of a block depend on: the model, and the type that it computes in."""
        computes = str(self._model.dtype).removeprefix("torch.")
        return self.decoder.fingerprint if computes == "float32" else f"{self.decoder.fingerprint} in {computes}"

    def _require_block_layout(self) -> None:
        """A causal prompt is as good as never asked for again: a store of them would only grow."""
        if self.layout != "block":
            raise ConfigError(f"a block store with layout {self.layout!r}; accepted: the block layout")

    def _heads(self, requests: Sequence[AttentionRequest]) -> tuple[Head, ...]:
        wanted: set[Head] = set()
        for request in requests:
            wanted.update(self.all_heads() if request.spec.heads is None else request.spec.heads)
        self.decoder.require_heads(wanted)
        if not wanted:
            raise InputError("no attention head was asked for: name at least one, or None for all")
        return tuple(sorted(wanted))

    def _lay_out(self, request: AttentionRequest) -> _LaidOut:
        spans: list[BlockSpan] = []
        blocks: list[BlockIds] = []
        start = 0
        for number, windows in enumerate(self._prompter.blocks(request.documents)):
            for window in windows:
                spans.append(BlockSpan(number, Span(start, start + len(window.ids)), window.offsets, window.window))
                blocks.append(window.ids)
                start += len(window.ids)
        if not blocks:
            raise InputError(f"none of the {len(request.documents)} documents has any text to attend to")
        if self.layout == "causal":
            blocks = [tuple(token for ids in blocks for token in ids)]
        return _LaidOut(tuple(blocks), tuple(spans), self._prompter.query(request.query))

    def _document_positions(self, blocks: Sequence[BlockIds]) -> int:
        """How many positions the documents take: all blocks share those of one window, a causal prompt has its own."""
        return self.window_tokens if self.layout == "block" else len(blocks[0])

    def _require_positions(self, item: _LaidOut) -> None:
        """Refuse what would run over the positions that the model was trained on."""
        documents = self._document_positions(item.blocks)
        query = len(self._prompter.stem) + len(item.query)
        total, most = len(self._prompter.prefix) + documents + query, self.decoder.positions
        if total > most:
            advice = "use smaller windows" if self.layout == "block" else "give fewer documents or use the block layout"
            raise LimitError(
                f"{self.layout} layout: {documents} positions of documents and {query} of the query make "
                f"{total} with the prompt's head; {self.decoder.name!r} reads {most}: {advice}"
            )

    def _suffix(self, queries: Sequence[tuple[int, ...]], calibrated: bool) -> Suffix:
        content_free = [self._prompter.content_free] if calibrated else []
        return branch(self._prompter.stem, [*queries, *content_free], self._model.device)  # type: ignore[arg-type]

    def _group(
        self,
        suffix: Suffix,
        blocks: Sequence[StoredBlock],
        prefix: LayerStack,
        rows: tuple[Rows, ...],
        at: int,
        start: int,
    ) -> ReadGroup:
        device = prefix.keys.device
        lengths = [block.tokens for block in blocks]
        keys = [torch.arange(prefix.tokens), *(prefix.tokens + torch.arange(length) for length in lengths)]
        return ReadGroup(
            suffix,
            slice(at, at + len(suffix.ids)),
            BlockGather(prefix, blocks, self._scratch),
            prefix.tokens,
            (start + torch.tensor(suffix.offsets)).to(device),
            torch.cat(keys).to(device),
            rows,
        )

    def _map(
        self,
        request: AttentionRequest,
        item: _LaidOut,
        heads: tuple[Head, ...],
        rows: dict[Rows, torch.Tensor],
        calibration: dict[Rows, torch.Tensor] | None,
        fresh: frozenset[BlockIds],
    ) -> AttentionMap:
        ids = [token for block in item.blocks for token in block]
        return AttentionMap(
            documents=request.documents,
            heads=heads,
            rows=rows,
            calibration=calibration,
            blocks=item.spans,
            token_ids=torch.tensor(ids),
            query_tokens=self._prompter.strings(item.query),
            cached_blocks=sum(block not in fresh for block in item.blocks),
            encoded_tokens=sum(len(block) for block in set(item.blocks) & fresh),
        )


def _finite(rows: torch.Tensor) -> torch.Tensor:
    if not bool(torch.isfinite(rows).all()):
        raise ModelOutputError("the model's attention holds values that are not finite numbers")
    return rows
