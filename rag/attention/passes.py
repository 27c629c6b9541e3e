"""The two forward passes of the engine, as a transformers attention function.

transformers calls `rag_attention` at every layer with post-rotary queries and keys; the pass object that
travels with the call (a keyword argument of ``model.forward``) decides what is attended to and what is
kept. No modelling file is changed. Both passes run *packed*: all documents (or all suffixes) of a batch
lie behind each other in one row of tokens, so the linear layers do no padded work at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from transformers import AttentionInterface

from rag.attention.softmax import as_bias, attend, group_rows, log_mass, merge, probabilities, ungroup_rows, visible
from rag.attention.suffix import ReadGroup
from rag.attention.types import Head, Rows
from rag.errors import UnsupportedModelError

IMPLEMENTATION = "rag_attention"

_ROW_CHUNK = 512


def one_by_one(device: torch.device) -> bool:
    """Whether the blocks of a batch attend one after the other: a CPU wins by doing no padded work, an accelerator
    loses by starting a kernel for every block.
    """
    return device.type == "cpu"


class LastLayerRead(Exception):
    """Raised at the last layer that anyone reads, so that no layer above it is run."""


class AttentionPass(Protocol):
    """What happens at one layer."""

    def layer(
        self,
        index: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float,
        sliding_window: int | None,
    ) -> torch.Tensor:
        """Attend at layer ``index``: query (H, tokens, d), key and value (key_heads, tokens, d) in,
        attention output (H, tokens, d) out.
        """
        ...


def rag_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,  # noqa: ARG001 - transformers' signature; a pass carries its own masks
    scaling: float | None = None,
    dropout: float = 0.0,  # noqa: ARG001
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    rag_pass: AttentionPass | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """The function that transformers' ``AttentionInterface`` knows as `IMPLEMENTATION`.

    Raises:
        UnsupportedModelError: the model's attention is not a plain softmax over keys, or the model does
            not hand keyword arguments of ``forward`` on to its attention.
    """
    if rag_pass is None:
        raise UnsupportedModelError(f"{type(module).__name__} does not hand keyword arguments on to its attention")
    if softcap is not None or s_aux is not None:
        feature = "soft-capped logits" if softcap is not None else "attention sinks"
        raise UnsupportedModelError(f"{type(module).__name__} uses {feature}; accepted: plain softmax attention")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    index: int = module.layer_idx  # type: ignore[assignment]
    output = rag_pass.layer(index, query[0], key[0], value[0], scale, sliding_window)
    return output.transpose(0, 1)[None], None


AttentionInterface.register(IMPLEMENTATION, rag_attention)


def run(model: torch.nn.Module, ids: Sequence[int], positions: Sequence[int], reading: AttentionPass) -> None:
    """Run the decoder over packed tokens until ``reading`` has what it wants. No layer above is computed."""
    device: torch.device = model.device  # type: ignore[assignment]
    try:
        model(
            input_ids=torch.tensor([list(ids)], device=device),
            position_ids=torch.tensor([list(positions)], device=device),
            use_cache=False,
            rag_pass=reading,
        )
    except LastLayerRead:
        return


class EncodePass:
    """Reads blocks: each attends to the shared prefix and causally to itself (BlockRank's block sparsity,
    Gupta et al. 2025, with a query-free prefix), and leaves its keys and values behind.
    """

    def __init__(self, lengths: Sequence[int], prefix: LayerStack | None, depth: int) -> None:
        self._lengths = list(lengths)
        self._prefix = prefix
        self._depth = depth
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self._biases: dict[tuple[int, int, int | None], torch.Tensor] = {}
        self._places: tuple[torch.Tensor, torch.Tensor] | None = None

    def layer(
        self,
        index: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float,
        sliding_window: int | None,
    ) -> torch.Tensor:
        """See `AttentionPass`."""
        self._keys.append(key)
        if index + 1 >= self._depth:
            raise LastLayerRead
        self._values.append(value)
        together = len(self._lengths) > 1 and max(self._lengths) <= 2 * _ROW_CHUNK and not one_by_one(query.device)
        if together and self._prefix is not None:
            prefix = self._prefix.keys[index], self._prefix.values[index]
            return self._all_blocks(prefix, query, key, value, scale, sliding_window)
        output = torch.empty_like(query)
        at = 0
        for length in self._lengths:
            mine = slice(at, at + length)
            at += length
            k, v = key[:, mine], value[:, mine]
            if self._prefix is not None:
                k = torch.cat([self._prefix.keys[index], k], dim=1)
                v = torch.cat([self._prefix.values[index], v], dim=1)
            output[:, mine] = self._block(query[:, mine], k, v, scale, sliding_window)
        return output

    def _all_blocks(
        self,
        prefix: tuple[torch.Tensor, torch.Tensor],
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float,
        sliding_window: int | None,
    ) -> torch.Tensor:
        """The same for all blocks at once, each padded at its end to the longest: no row sees what comes after it,
        so the causal mask of the longest serves them all.
        """
        heads, key_heads, count = query.shape[0], key.shape[0], len(self._lengths)
        longest = max(self._lengths)
        taken, back = self._padding(query.device)

        def padded(x: torch.Tensor) -> torch.Tensor:  # (H, tokens, d) to (blocks, H, longest, d)
            return x.index_select(1, taken).view(x.shape[0], count, longest, x.shape[2]).transpose(0, 1)

        def behind(shared: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([shared.expand(count, -1, -1, -1), padded(x)], dim=2)

        bias = self._bias(longest, prefix[0].shape[1] + longest, heads // key_heads, sliding_window, query.device)
        attended = torch.nn.functional.scaled_dot_product_attention(
            padded(query).reshape(count, key_heads, heads // key_heads * longest, query.shape[2]),
            behind(prefix[0], key),
            behind(prefix[1], value),
            attn_mask=bias.to(query.dtype),
            scale=scale,
        )
        return attended.reshape(count, heads, longest, -1).transpose(0, 1).flatten(1, 2).index_select(1, back)

    def _padding(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Which token of the batch stands at each place of the padded blocks, and at which place each token stands.
        The same in every layer, so it is made once.
        """
        if self._places is None:
            longest, total = max(self._lengths), sum(self._lengths)
            lengths = torch.tensor(self._lengths)
            place = torch.arange(longest)
            taken = ((lengths.cumsum(0) - lengths)[:, None] + place).clamp_max(total - 1)
            back = (place < lengths[:, None]).flatten().nonzero().flatten()
            self._places = taken.flatten().to(device), back.to(device)
        return self._places

    def _block(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, sliding_window: int | None
    ) -> torch.Tensor:
        """Causal attention of a block's rows to the prefix and the block, a chunk of rows at a time: keys
        after a chunk are not touched, and the mask of a long causal prompt never exists as a whole.
        """
        heads, rows = query.shape[:2]
        key_heads, keys = key.shape[:2]
        parts = []
        for start in range(0, rows, _ROW_CHUNK):
            stop = min(start + _ROW_CHUNK, rows)
            seen = keys - rows + stop
            bias = self._bias(stop - start, seen, heads // key_heads, sliding_window, query.device)
            grouped = group_rows(query[:, start:stop], key_heads)
            attended, _ = attend(grouped, key[:, :seen], value[:, :seen], scale, bias)
            parts.append(ungroup_rows(attended, heads))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _bias(self, rows: int, keys: int, share: int, sliding_window: int | None, device: torch.device) -> torch.Tensor:
        """Who sees whom: ``rows`` are the last of ``keys`` positions. The same in every layer of one kind, so
        it is made once for blocks of the usual size.
        """
        name = (rows, keys, sliding_window)
        bias = self._biases.get(name)
        if bias is None:
            positions = torch.arange(keys, device=device)
            bias = as_bias(visible(positions[keys - rows :], positions, sliding_window).repeat(share, 1))
            if keys <= 2 * _ROW_CHUNK:
                self._biases[name] = bias
        return bias

    def stacks(self) -> list[LayerStack]:
        """What was left behind: one `LayerStack` per block, each in memory of its own."""
        keys = zip(*(torch.split(key, self._lengths, dim=1) for key in self._keys), strict=True)
        none = [self._keys[0].new_empty((0, 0, length, 0)) for length in self._lengths]
        values = [
            torch.stack(v) for v in zip(*(torch.split(v, self._lengths, dim=1) for v in self._values), strict=True)
        ]
        return [LayerStack(torch.stack(k), v) for k, v in zip(keys, values or none, strict=True)]


class LayerStack:
    """Keys and values of a run of tokens: keys (L, key_heads, T, d); values the same with L - 1 layers,
    since the pass stops at the top layer before its values are used.
    """

    __slots__ = ("keys", "values")

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.keys = keys
        self.values = values

    @property
    def tokens(self) -> int:
        """T."""
        return self.keys.shape[2]

    @property
    def depth(self) -> int:
        """L: how many layers, counted from the bottom, can be read."""
        return self.keys.shape[0]


_SELECT_ROWS = {
    "mean": lambda weights: weights.mean(dim=-2, keepdim=True),
    "last": lambda weights: weights[..., -1:, :],
    "all": lambda weights: weights,
}


class ReadPass:
    """Runs suffix tokens over prefix and documents and keeps the attention rows asked for.

    Rows of a head are recomputed from the log-sum-exp of the fast kernel, so that the S x R matrix of
    attention exists for one head at a time only; at the last layer nothing but the wanted heads is computed.
    """

    def __init__(self, groups: Sequence[ReadGroup], heads: Sequence[Head]) -> None:
        self._groups = groups
        self._by_layer: dict[int, list[int]] = {}
        for head in sorted(heads):
            self._by_layer.setdefault(head.layer, []).append(head.head)
        self._exit = max(self._by_layer)
        self.rows: list[list[dict[Rows, list[torch.Tensor]]]] = [
            [{name: [] for name in group.rows} for _ in group.suffix.branches] for group in groups
        ]

    def layer(
        self,
        index: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float,
        sliding_window: int | None,
    ) -> torch.Tensor:
        """See `AttentionPass`."""
        wanted = self._by_layer.get(index, [])
        output = query if index >= self._exit else torch.empty_like(query)
        for group, kept in zip(self._groups, self.rows, strict=True):
            q, k, v = (x[:, group.packed] for x in (query, key, value))
            keys, values = group.gather(index, index < self._exit)
            view = _View(group, q, k, keys, scale, sliding_window)
            if values is not None:
                attended, lse = view.attend(v, values)
                output[:, group.packed] = attended
            for head in wanted:
                weights = view.weights(head, lse[head] if values is not None else None)
                for branch, rows in zip(group.suffix.branches, kept, strict=True):
                    picked = weights[branch]
                    for name in group.rows:
                        rows[name].append(_SELECT_ROWS[name](picked))
        if index >= self._exit:
            raise LastLayerRead
        return output


class _View:
    """One group at one layer: its queries, its own keys, the gathered keys, and who sees what."""

    def __init__(
        self,
        group: ReadGroup,
        query: torch.Tensor,
        own_keys: torch.Tensor,
        keys: torch.Tensor,
        scale: float,
        sliding_window: int | None,
    ) -> None:
        self._query, self._own_keys, self._keys, self._scale = query, own_keys, keys, scale
        self._share = query.shape[0] // keys.shape[0]
        self._first_document_key = group.prefix_tokens
        self._own_seen, self._seen = group.suffix.sees, None
        if sliding_window is not None:
            rows = group.row_positions
            self._own_seen = self._own_seen & visible(rows, rows, sliding_window)
            self._seen = visible(rows, group.key_positions, sliding_window)

    def _tiled(self, mask: torch.Tensor | None) -> torch.Tensor | None:
        return None if mask is None else as_bias(mask.repeat(self._share, 1))

    def attend(self, own_values: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention output (H, R, d) and log-sum-exp (H, R) over prefix, documents and own suffix."""
        heads, key_heads = self._query.shape[0], self._keys.shape[0]
        rows = group_rows(self._query, key_heads)
        output, lse = merge(
            [
                attend(rows, self._keys, values, self._scale, self._tiled(self._seen)),
                attend(rows, self._own_keys, own_values, self._scale, self._tiled(self._own_seen)),
            ]
        )
        return ungroup_rows(output, heads), ungroup_rows(lse, heads)

    def weights(self, head: int, lse: torch.Tensor | None) -> torch.Tensor:
        """Post-softmax attention (R, document tokens) of one head, float32."""
        query, kept = self._query[head], head // self._share
        if lse is None:
            lse = torch.logaddexp(
                log_mass(query, self._keys[kept], self._scale, self._seen),
                log_mass(query, self._own_keys[kept], self._scale, self._own_seen),
            )
        documents = self._keys[kept, self._first_document_key :]
        seen = None if self._seen is None else self._seen[:, self._first_document_key :]
        return probabilities(query, documents, self._scale, lse, seen)
