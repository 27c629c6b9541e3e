"""Tiny random decoders of every family the engine claims to read, and an eager reference to compare with."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    AutoModel,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from rag.attention.passes import IMPLEMENTATION
from rag.types import Span

SHAPE: dict[str, Any] = {
    "vocab_size": 49152,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 2048,
}

CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SHAPE),
    "qwen2": Qwen2Config(**SHAPE),
    "qwen3": Qwen3Config(**SHAPE),
    "mistral": MistralConfig(**SHAPE, sliding_window=None),
    "mistral-sliding": MistralConfig(**SHAPE, sliding_window=100),
    "gemma3": Gemma3TextConfig(
        **SHAPE,
        sliding_window=100,
        query_pre_attn_scalar=8,
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    ),
}


def decoder(family: str, implementation: str = IMPLEMENTATION) -> torch.nn.Module:
    """A decoder with fixed random weights; large enough ones that attention is far from uniform."""
    torch.manual_seed(7)
    model = AutoModel.from_config(CONFIGS[family], attn_implementation=implementation)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "proj" in name:
                weight.normal_(0, 0.35)
    return model.eval().float()


def split_words(text: str) -> list[Span]:
    """Sentence splitter of the engine tests: a border after every full stop."""
    spans, start = [], 0
    for at, letter in enumerate(text):
        if letter == ".":
            spans.append(Span(start, at + 1))
            start = at + 1
    return spans + ([Span(start, len(text))] if start < len(text) else [])


def eager_rows(
    family: str, ids: list[int], positions: list[int], sees: torch.Tensor, rows: list[int], columns: list[int]
) -> torch.Tensor:
    """Attention (layers, heads, rows, columns) of one dense eager pass of transformers under an explicit mask."""
    model = decoder(family, "eager")
    place = torch.tensor(positions)
    window = getattr(model.config, "sliding_window", None)

    def additive(mask: torch.Tensor) -> torch.Tensor:
        return torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)[None, None]

    near = sees if window is None else sees & (place[:, None] - place[None, :] < window)
    mask: Any = additive(near)
    if family == "gemma3":
        mask = {"full_attention": additive(sees), "sliding_attention": additive(near)}
    with torch.no_grad():
        out = model(
            input_ids=torch.tensor([ids]),
            position_ids=place[None],
            attention_mask=mask,
            output_attentions=True,
            use_cache=False,
        )
    return torch.stack([layer[0][:, rows][:, :, columns] for layer in out.attentions])
