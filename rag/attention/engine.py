"""The attention engine: documents are read once and kept; a query pays only for its own tokens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch

from rag.attention.adapter import AttentionAdapter
from rag.attention.blocks import BlockEncoder, BlockIds, block_key
from rag.attention.decoder import Decoder
from rag.attention.disk import BlockStore, StoreIdentity, frame_digest, open_for_lookups
from rag.attention.head_choice import named_heads
from rag.attention.heads import default_heads
from rag.attention.layout import PromptLayout
from rag.attention.memory import give_back_freed, in_halves
from rag.attention.precompute import PrecomputeReport, Progress, precompute, shipped_depth
from rag.attention.prompt import Prompter
from rag.attention.query_reader import QueryReader
from rag.attention.store import BlockCache, CacheStats, Precision, StoredBlock
from rag.attention.template import DEFAULT_TEMPLATE, Template
from rag.attention.types import AttentionMap, AttentionRequest, AttentionSpec, Head, HeadChoice, Layout
from rag.errors import ConfigError, InputError
from rag.models.load import DType
from rag.sentences import sentences
from rag.types import Document, Query, Span

__all__ = ["AttentionEngine", "AttentionRequest", "Decoder", "Layout"]


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
        self._prompts = PromptLayout(layout, self._prompter, self.decoder, window_tokens)
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
        self._lock = threading.RLock()
        self._reader = QueryReader(self._model, self._encoder, self._prompter, self._lock)

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
        return named_heads(given, self.decoder, self.template.digest(), self.layout, task)

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
        blocks = self._prompts.blocks(documents)
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
        laid = [self._prompts.lay_out(request) for request in requests]
        maps = in_halves(lambda part: self._reader.read(part, heads, between), laid)
        if any(answer.encoded_tokens for answer in maps):
            give_back_freed()
        return maps

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
            cut=self._prompts.blocks,
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
