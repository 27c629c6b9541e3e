"""The attention maths shared by both passes: attention with its log-sum-exp, merging, and positions.

Grouped-query attention is never expanded in memory: the ``G`` query heads that share a key head are
laid out as extra rows, so every product is (key heads, G * rows, d) x (key heads, keys, d).
"""

from __future__ import annotations

import torch


def group_rows(query: torch.Tensor, key_heads: int) -> torch.Tensor:
    """(H, R, d) query heads to (key_heads, G * R, d), G = H / key_heads."""
    heads, rows, width = query.shape
    return query.reshape(key_heads, heads // key_heads * rows, width)


def ungroup_rows(grouped: torch.Tensor, heads: int) -> torch.Tensor:
    """The inverse of `group_rows`: (key_heads, G * R, ...) to (H, R, ...)."""
    key_heads, rows = grouped.shape[:2]
    return grouped.reshape(heads, rows * key_heads // heads, *grouped.shape[2:])


def visible(rows: torch.Tensor, keys: torch.Tensor, sliding_window: int | None) -> torch.Tensor:
    """Boolean (R, K): key positions at or before the row's, and inside the sliding window if there is one."""
    distance = rows[:, None] - keys[None, :]
    mask = distance >= 0
    return mask if sliding_window is None else mask & (distance < sliding_window)


def as_bias(mask: torch.Tensor) -> torch.Tensor:
    """Boolean (rows, keys) to the float32 bias that `attend` adds to logits: 0 where a row sees a key, else -inf."""
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, float("-inf"))


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax attention and the log-sum-exp of its logits.

    Args:
        query: (key_heads, rows, d); key, value: (key_heads, keys, d).
        scale: multiplies the query before the product, so that half precision does not overflow.
        bias: (rows, keys) from `as_bias`, or None where every row sees every key.

    Returns:
        output (key_heads, rows, d) in the query's dtype and log-sum-exp (key_heads, rows) in float32;
        a row that sees nothing gets output 0 and log-sum-exp -inf.
    """
    output, lse = (_fast_cpu if query.device.type == "cpu" else _plain)(query, key, value, scale, bias)
    if bias is not None:
        blind = torch.isneginf(bias).all(dim=-1)
        # What kernels leave in a row that sees nothing is undefined. To ask first would make an accelerator wait.
        if bias.device.type != "cpu" or bool(blind.any()):
            output, lse = output.masked_fill(blind[:, None], 0.0), lse.masked_fill(blind, float("-inf"))
    return output, lse


def _fast_cpu(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """torch's fused CPU kernel, which gives the log-sum-exp and never holds the rows x keys matrix."""
    added = None if bias is None else bias.to(query.dtype)
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query[None], key[None], value[None], attn_mask=added, scale=scale
    )
    return output[0], lse[0]


def _plain(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two products with the softmax in float32 between them: any device, any type.

    The logits are float32 from the start: bfloat16 has 8 bits, which is a few per cent of a probability.
    """
    logits = torch.matmul(query.float() * scale, key.float().transpose(-1, -2))
    if bias is not None:
        logits = logits + bias
    lse = torch.logsumexp(logits, dim=-1)
    return torch.matmul(torch.exp(logits - lse[..., None]).to(value.dtype), value), lse


def merge(
    parts: list[tuple[torch.Tensor, torch.Tensor]],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Combine attention over disjoint key sets into attention over their union, by log-sum-exp."""
    if len(parts) == 1:
        return parts[0]
    lses = torch.stack([lse for _, lse in parts])
    total = torch.logsumexp(lses, dim=0)
    weights = torch.exp(lses - total)
    output = sum(part * weight[..., None].to(part.dtype) for (part, _), weight in zip(parts, weights, strict=True))
    return output, total


def _logits(query: torch.Tensor, key: torch.Tensor, scale: float, seen: torch.Tensor | None) -> torch.Tensor:
    logits = torch.matmul(query.float() * scale, key.float().transpose(-1, -2))
    return logits if seen is None else logits.masked_fill_(~seen, float("-inf"))


def log_mass(query: torch.Tensor, key: torch.Tensor, scale: float, seen: torch.Tensor | None = None) -> torch.Tensor:
    """Log-sum-exp (rows,) of the logits of query (rows, d) and key (keys, d), in float32."""
    return torch.logsumexp(_logits(query, key, scale, seen), dim=-1)


def probabilities(
    query: torch.Tensor, key: torch.Tensor, scale: float, lse: torch.Tensor, seen: torch.Tensor | None = None
) -> torch.Tensor:
    """Post-softmax attention (rows, keys) in float32 of rows whose full log-sum-exp (rows,) is known."""
    return _logits(query, key, scale, seen).sub_(lse[..., None]).exp_()
