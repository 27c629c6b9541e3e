"""Blocks from cache or from the model, and their keys and values gathered for a query."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import torch

from rag.attention.memory import in_halves
from rag.attention.passes import EncodePass, LayerStack, run
from rag.attention.store import BlockCache, PackedTensor, StoredBlock

BlockIds = tuple[int, ...]


class BlockEncoder:
    """Encodes blocks behind a fixed prefix, in packed batches, and keeps them in a `BlockCache`.

    Not thread-safe: the engine calls it under its lock.
    """

    def __init__(self, model: torch.nn.Module, prefix: BlockIds, cache: BlockCache, batch_tokens: int) -> None:
        self._model = model
        self._prefix_ids = prefix
        self._prefix: LayerStack | None = None
        self._cache = cache
        self._batch_tokens = batch_tokens

    def prefix(self, depth: int) -> LayerStack:
        """Keys and values of the prefix, at least ``depth`` layers; computed once."""
        if self._prefix is None or self._prefix.depth < depth:
            reading = EncodePass([len(self._prefix_ids)], None, depth)
            run(self._model, self._prefix_ids, range(len(self._prefix_ids)), reading)
            (self._prefix,) = reading.stacks()
        return self._prefix

    def encode(
        self, blocks: Sequence[BlockIds], depth: int, between: Callable[[], None] | None = None
    ) -> tuple[dict[BlockIds, StoredBlock], frozenset[BlockIds]]:
        """Every distinct block with at least ``depth`` layers, and which of them had to be read anew.

        ``between`` is called between two batches.
        """
        found: dict[BlockIds, StoredBlock] = {}
        missing: list[BlockIds] = []
        for ids in dict.fromkeys(blocks):
            block = self._cache.get(block_key(ids), depth)
            if block is None:
                missing.append(ids)
            else:
                found[ids] = block
        # By length, so that what an accelerator pads is little: no block of a batch but the last ones is much longer.
        for number, batch in enumerate(token_batches(sorted(missing, key=len), self._batch_tokens)):
            if number and between is not None:
                between()
            blocks_read = self.read(batch, depth)
            for ids, block in blocks_read.items():
                self._cache.put(block_key(ids), block)
            found.update(blocks_read)
        return found, frozenset(missing)

    def read(self, batch: Sequence[BlockIds], depth: int) -> dict[BlockIds, StoredBlock]:
        """Run the model over one packed batch of distinct blocks (over parts of it where memory is short);
        nothing is looked up or kept in the cache.
        """
        stored = in_halves(lambda part: self._read(part, depth), batch)
        return dict(zip(batch, stored, strict=True))

    def _read(self, batch: Sequence[BlockIds], depth: int) -> list[StoredBlock]:
        prefix = self.prefix(depth)
        reading = EncodePass([len(ids) for ids in batch], prefix, depth)
        packed = [token for ids in batch for token in ids]
        positions = [prefix.tokens + offset for ids in batch for offset in range(len(ids))]
        run(self._model, packed, positions, reading)
        return [StoredBlock.of(stack, self._cache.precision) for stack in reading.stacks()]


def block_key(ids: BlockIds) -> bytes:
    """Cache key of a block's token ids (the cache belongs to one model, prefix and layout)."""
    return hashlib.blake2b(np.asarray(ids, dtype=np.int32).tobytes(), digest_size=16).digest()


def token_batches(blocks: Sequence[BlockIds], batch_tokens: int) -> list[list[BlockIds]]:
    """Consecutive batches of at most ``batch_tokens`` tokens (a longer block is a batch of its own)."""
    batches: list[list[BlockIds]] = []
    room = 0
    for ids in blocks:
        if len(ids) > room:
            batches.append([])
            room = batch_tokens
        batches[-1].append(ids)
        room -= len(ids)
    return batches


class Scratch:
    """Two reusable buffers for gathered keys and values; they grow to the largest list seen and stay."""

    def __init__(self) -> None:
        self._flat: dict[str, torch.Tensor] = {}

    def take(self, name: str, shape: tuple[int, int, int], like: torch.Tensor) -> torch.Tensor:
        """A buffer of this shape with ``like``'s type and device; its content is undefined."""
        size = shape[0] * shape[1] * shape[2]
        flat = self._flat.get(name)
        if flat is None or flat.numel() < size:
            flat = self._flat[name] = torch.empty(size, dtype=like.dtype, device=like.device)
        return flat[:size].view(shape)


class BlockGather:
    """Brings prefix and blocks together, a layer at a time, in the shared scratch buffers."""

    def __init__(self, prefix: LayerStack, blocks: Sequence[StoredBlock], scratch: Scratch) -> None:
        self._prefix, self._blocks, self._scratch = prefix, blocks, scratch
        self._tokens = prefix.tokens + sum(block.tokens for block in blocks)

    def __call__(self, layer: int, with_values: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See `rag.attention.suffix.Gather`. The tensors are overwritten by the next call."""
        keys = self._fill("keys", self._prefix.keys[layer], [block.keys for block in self._blocks], layer)
        if not with_values:
            return keys, None
        return keys, self._fill("values", self._prefix.values[layer], [block.values for block in self._blocks], layer)

    def _fill(self, name: str, prefix: torch.Tensor, parts: Sequence[PackedTensor], layer: int) -> torch.Tensor:
        out = self._scratch.take(name, (prefix.shape[0], self._tokens, prefix.shape[2]), prefix)
        if all(part.data.dtype == prefix.dtype for part in parts):
            return torch.cat([prefix, *(part.data[layer] for part in parts)], dim=1, out=out)
        out[:, : prefix.shape[1]] = prefix
        at = prefix.shape[1]
        for part in parts:
            part.read(layer, out[:, at : at + part.tokens])
            at += part.tokens
        return out
