"""Several queries in one forward pass: those over the same documents share the work, each gets a map of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import torch

from rag.attention.blocks import BlockEncoder, BlockGather, BlockIds, Scratch
from rag.attention.layout import LaidOut
from rag.attention.passes import LayerStack, ReadPass, run
from rag.attention.prompt import Prompter
from rag.attention.store import StoredBlock
from rag.attention.suffix import ReadGroup, branch
from rag.attention.types import AttentionMap, Head, Rows
from rag.errors import ModelOutputError


class QueryReader:
    """Encodes the blocks that are not known yet, and runs the queries over all of them.

    ``lock`` is held while the model runs.
    """

    def __init__(
        self, model: torch.nn.Module, encoder: BlockEncoder, prompter: Prompter, lock: threading.RLock
    ) -> None:
        self._model, self._encoder, self._prompter, self._lock = model, encoder, prompter, lock
        self._scratch = Scratch()

    def read(
        self, requests: Sequence[LaidOut], heads: tuple[Head, ...], between: Callable[[], None] | None
    ) -> list[AttentionMap]:
        """One map per request, with all of ``heads`` (ascending); see `AttentionEngine.attend_many`.

        Raises:
            ModelOutputError: the model gave NaN or infinity.
        """
        depth = heads[-1].layer + 1
        together: dict[tuple[tuple[BlockIds, ...], tuple[Rows, ...]], list[int]] = {}
        for number, item in enumerate(requests):
            together.setdefault((item.blocks, item.request.spec.rows), []).append(number)
        with self._lock, torch.inference_mode():
            blocks, fresh = self._encoder.encode([ids for item in requests for ids in item.blocks], depth, between)
            prefix = self._encoder.prefix(depth)
            groups: list[ReadGroup] = []
            packed: list[int] = []
            positions: list[int] = []
            for members in together.values():
                some = [requests[i] for i in members]
                group = self._group(some, blocks, prefix, len(packed))
                groups.append(group)
                packed += group.suffix.ids
                positions += (some[0].suffix_start + offset for offset in group.suffix.offsets)
            reading = ReadPass(groups, heads)
            run(self._model, packed, positions, reading)
        maps: dict[int, AttentionMap] = {}
        for members, kept in zip(together.values(), reading.rows, strict=True):
            stacked = [{name: _finite(torch.stack(parts).cpu()) for name, parts in rows.items()} for rows in kept]
            for place, i in enumerate(members):
                # The content-free query is the branch behind all others.
                calibration = stacked[len(members)] if requests[i].request.spec.calibrated else None
                maps[i] = self._map(requests[i], heads, stacked[place], calibration, fresh)
        return [maps[i] for i in range(len(requests))]

    def _group(
        self, members: Sequence[LaidOut], blocks: Mapping[BlockIds, StoredBlock], prefix: LayerStack, at: int
    ) -> ReadGroup:
        """Requests over the same blocks with the same rows; ``at`` is where their suffix lies in the packed batch."""
        first, device = members[0], prefix.keys.device
        calibrated = any(item.request.spec.calibrated for item in members)
        content_free = [self._prompter.content_free] if calibrated else []
        suffix = branch(self._prompter.stem, [*(item.query for item in members), *content_free], device)
        stored = [blocks[ids] for ids in first.blocks]
        keys = [torch.arange(prefix.tokens), *(prefix.tokens + torch.arange(block.tokens) for block in stored)]
        return ReadGroup(
            suffix,
            slice(at, at + len(suffix.ids)),
            BlockGather(prefix, stored, self._scratch),
            prefix.tokens,
            (first.suffix_start + torch.tensor(suffix.offsets)).to(device),
            torch.cat(keys).to(device),
            first.request.spec.rows,
        )

    def _map(
        self,
        item: LaidOut,
        heads: tuple[Head, ...],
        rows: dict[Rows, torch.Tensor],
        calibration: dict[Rows, torch.Tensor] | None,
        fresh: frozenset[BlockIds],
    ) -> AttentionMap:
        ids = [token for block in item.blocks for token in block]
        return AttentionMap(
            documents=item.request.documents,
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
