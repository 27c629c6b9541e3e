"""A loaded decoder, and what the engine must know of its shape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from rag.attention.memory import give_back_freed
from rag.attention.passes import IMPLEMENTATION
from rag.attention.store import Precision, bytes_per_number
from rag.attention.types import Head
from rag.errors import BudgetError, ConfigError, InputError
from rag.models import fingerprint, resolve
from rag.models.load import DType, load_decoder


@dataclass(frozen=True, slots=True)
class Decoder:
    """A loaded model: transformers decoder and fast tokenizer, the name it goes by, its fingerprint.

    The model must have been loaded with ``attn_implementation=IMPLEMENTATION``.
    """

    model: torch.nn.Module
    tokenizer: Any
    name: str
    fingerprint: str

    @classmethod
    def load(cls, name: str, *, device: str = "cpu", dtype: DType = "float32") -> Decoder:
        """Resolve and load a model by name; see `rag.models.resolve` for the names and errors."""
        resolved = resolve(name, kind="llm")
        model, tokenizer = load_decoder(resolved, device=device, dtype=dtype, attn_implementation=IMPLEMENTATION)
        give_back_freed()
        return cls(model, tokenizer, name, fingerprint(resolved.path))

    @property
    def _config(self) -> Any:
        return self.model.config

    @property
    def architecture(self) -> str:
        """The family's name in transformers."""
        return str(self._config.model_type)

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return int(self._config.num_hidden_layers)

    @property
    def heads_per_layer(self) -> int:
        """Query heads of each layer."""
        return int(self._config.num_attention_heads)

    @property
    def positions(self) -> int:
        """The longest prompt, in tokens."""
        return int(self._config.max_position_embeddings)

    def all_heads(self) -> tuple[Head, ...]:
        """Every query head, layer by layer."""
        return tuple(Head(layer, head) for layer in range(self.layers) for head in range(self.heads_per_layer))

    def require_heads(self, heads: Iterable[Head]) -> None:
        """Raise `InputError` where a head is outside the model."""
        for head in heads:
            if not (0 <= head.layer < self.layers and 0 <= head.head < self.heads_per_layer):
                raise InputError(
                    f"head {head} is outside the model: accepted are layers 0 to {self.layers - 1} "
                    f"with heads 0 to {self.heads_per_layer - 1}"
                )

    def require_window(self, window_tokens: int) -> None:
        """Raise `ConfigError` for windows that the query could not see across in sliding-window layers."""
        sliding = getattr(self._config, "sliding_window", None)
        kinds = getattr(self._config, "layer_types", None)
        if kinds is not None and "sliding_attention" not in kinds:
            return
        if sliding is not None and window_tokens >= sliding:
            raise ConfigError(
                f"window_tokens {window_tokens} with {self.name!r}, whose sliding-window layers see {sliding} tokens "
                f"back; accepted: below {sliding}, better below {sliding * 3 // 4}"
            )

    def token_bytes(self, depth: int, precision: Precision) -> int:
        """Bytes that one token's keys and values of the lowest ``depth`` layers take in the block cache (int8: without
        its share of the scales).
        """
        width = getattr(self._config, "head_dim", None) or self._config.hidden_size // self.heads_per_layer
        # Keys of every layer, and values of all but the top one: a pass stops before these are used.
        return (2 * depth - 1) * int(self._config.num_key_value_heads) * int(width) * bytes_per_number(precision)

    def require_budget(self, cache_bytes: int, precision: Precision, window_tokens: int) -> None:
        """Raise `BudgetError` for a block cache that could not hold one full window of all layers."""
        needed = window_tokens * self.token_bytes(self.layers, precision)
        if cache_bytes < needed:
            raise BudgetError(
                f"cache budget of {cache_bytes} bytes is smaller than one block: {window_tokens} tokens x "
                f"{self.layers} layers of {self.name!r} need {needed} bytes in {precision}"
            )
