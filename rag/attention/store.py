"""Keeping blocks: how their keys and values are stored, and the byte-bounded cache that holds them in memory."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import cachetools
import torch

from rag.attention.passes import LayerStack
from rag.errors import ConfigError

if TYPE_CHECKING:
    from rag.attention.disk import BlockStore

Precision = Literal["float32", "float16", "bfloat16", "int8"]
_DTYPES: dict[Precision, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.int8,
}

_log = logging.getLogger(__name__)


def bytes_per_number(precision: Precision) -> int:
    """Bytes that one number of a key or value takes in storage (int8: without its share of the scales)."""
    return _DTYPES[precision].itemsize


@dataclass(frozen=True, slots=True)
class PackedTensor:
    """A tensor (L, key_heads, T, d) in its storage type; int8 has a scale per layer, key head and channel."""

    data: torch.Tensor
    scale: torch.Tensor | None

    @property
    def tokens(self) -> int:
        """T."""
        return self.data.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes of memory taken."""
        return self.data.nbytes + (0 if self.scale is None else self.scale.nbytes)

    def to(self, precision: Precision) -> PackedTensor:
        """The same numbers in another storage type."""
        return _pack(self.data if self.scale is None else self.data * self.scale, precision)

    def read(self, layer: int, out: torch.Tensor) -> None:
        """Write one layer into ``out`` (key_heads, T, d), in ``out``'s type."""
        out.copy_(self.data[layer])
        if self.scale is not None:
            out.mul_(self.scale[layer])


def _pack(tensor: torch.Tensor, precision: Precision) -> PackedTensor:
    if precision != "int8":
        return PackedTensor(tensor.to(_DTYPES[precision]), None)
    # A symmetric scale per channel: keys have a few channels that are much larger than the others, and a
    # scale over the whole head would spend the 8 bits on those alone.
    scale = tensor.abs().amax(dim=2, keepdim=True).clamp_min(1e-8) / 127
    return PackedTensor(torch.round(tensor / scale).to(torch.int8), scale)


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """Keys and values of one block in the cache's precision."""

    keys: PackedTensor
    values: PackedTensor

    @classmethod
    def of(cls, stack: LayerStack, precision: Precision) -> StoredBlock:
        """Convert a block to the storage precision."""
        return cls(_pack(stack.keys, precision), _pack(stack.values, precision))

    def to(self, precision: Precision) -> StoredBlock:
        """The same block in another storage type."""
        return StoredBlock(self.keys.to(precision), self.values.to(precision))

    @property
    def tokens(self) -> int:
        """Tokens in the block."""
        return self.keys.data.shape[2]

    @property
    def depth(self) -> int:
        """How many layers, from the bottom, can be read."""
        return self.keys.data.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of memory the block takes."""
        return self.keys.nbytes + self.values.nbytes


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Counters since the engine was made, and what the cache holds now.

    A lookup is a hit (in memory), a disk hit, or a miss; ``disk_blocks`` is how many the disk tier can give.
    """

    hits: int
    misses: int
    evictions: int
    blocks: int
    bytes: int
    budget_bytes: int
    disk_hits: int = 0
    disk_blocks: int = 0


class _CountingLRU(cachetools.LRUCache[bytes, StoredBlock]):
    evictions = 0

    def popitem(self) -> tuple[bytes, StoredBlock]:
        self.evictions += 1
        return super().popitem()

    def peek(self, key: bytes) -> StoredBlock | None:
        """The block, if it is there, without making it the most recently used."""
        return cachetools.Cache.__getitem__(self, key) if key in self else None


class BlockCache:
    """Least-recently-used blocks within a byte budget, in front of a block store on disk, if there is one.
    What is not in memory is looked up there; nothing is ever written there. Thread-safe.

    Raises:
        ConfigError: the precision is not one of the known ones.
    """

    def __init__(self, budget_bytes: int, precision: Precision = "float32", disk: BlockStore | None = None) -> None:
        if precision not in get_args(Precision):
            raise ConfigError(f"cache precision {precision!r}; accepted: {', '.join(get_args(Precision))}")
        self.precision = precision
        self._lru = _CountingLRU(maxsize=budget_bytes, getsizeof=lambda block: block.nbytes)
        self._lock = threading.Lock()
        self._disk = disk
        self._hits = self._disk_hits = self._misses = 0

    def get(self, key: bytes, depth: int) -> StoredBlock | None:
        """The block, if it is there with at least ``depth`` layers."""
        with self._lock:
            block = self._lru.get(key)
            if block is not None and block.depth >= depth:
                self._hits += 1
                return block
        block = None if self._disk is None else self._disk.get(key, depth)
        with self._lock:
            if block is None:
                self._misses += 1
                return None
            self._disk_hits += 1
        self.put(key, block)
        return block

    def holds(self, key: bytes, depth: int) -> bool:
        """Whether the block is in memory with at least ``depth`` layers; not counted as a look-up."""
        with self._lock:
            block = self._lru.peek(key)
            return block is not None and block.depth >= depth

    def put(self, key: bytes, block: StoredBlock) -> None:
        """Keep a block, evicting the least recently used. One that alone is larger than the budget (a long
        causal prompt) is not kept, which is logged: it will be computed again.
        """
        with self._lock:
            if block.nbytes <= self._lru.maxsize:
                self._lru[key] = block
                return
        _log.warning(
            "a block of %d tokens takes %d bytes and is not kept: the cache's budget is %d bytes",
            block.tokens,
            block.nbytes,
            self._lru.maxsize,
        )

    def take(self, other: BlockCache) -> None:
        """Keep what another cache holds in memory, in this one's precision."""
        with other._lock:
            held = dict(other._lru)
        for key, block in held.items():
            self.put(key, block.to(self.precision))

    def clear(self) -> None:
        """Forget all blocks in memory; counters stay, and so does the disk tier."""
        with self._lock:
            self._lru.clear()

    def stats(self) -> CacheStats:
        """A snapshot of the counters."""
        with self._lock:
            return CacheStats(
                self._hits,
                self._misses,
                self._lru.evictions,
                len(self._lru),
                int(self._lru.currsize),
                int(self._lru.maxsize),
                self._disk_hits,
                0 if self._disk is None else len(self._disk),
            )
