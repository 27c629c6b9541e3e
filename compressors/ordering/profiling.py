"""Measuring a slot profile: which places of its context a model looks at, whatever stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rag.attention.types import AttentionSpec
from rag.compressors.ordering.document_attention import Floats, layer_attention
from rag.compressors.ordering.slot_profile import Curve, SlotProfile
from rag.errors import ConfigError, InputError
from rag.types import Document, Query

if TYPE_CHECKING:
    from rag.attention.engine import AttentionEngine

RISE = 0.05
"""By how much of the mean both ends must exceed every slot between them for a curve to count as a basin."""


def read_slots(engine: AttentionEngine, query: Query, documents: Sequence[Document]) -> Floats:
    """Attention of the query to each of its documents in one prompt, per layer: (layers, D).

    Mean over the query's rows, the layer's heads and the document's tokens, so that a long document has no
    advantage. The prompt is forgotten afterwards: the cache would fill with prompts that never come again.

    Raises:
        ConfigError: the engine has the block layout, where all documents stand in the same place.
        InputError: a document is empty.
    """
    if engine.layout != "causal":
        raise ConfigError(f"a slot profile with layout {engine.layout!r}; accepted: the causal layout")
    if any(document.is_empty for document in documents):
        raise InputError("a document without text takes no slot; a profile is measured with documents that have text")
    slots = layer_attention(engine.attend(query, documents, AttentionSpec(rows=("mean",))))
    engine.clear_cache()
    return slots


def is_basin(curve: Sequence[float] | Floats) -> bool:
    """True where the first and the last slot both get more than every slot between them (by `RISE` of the mean)."""
    slots = np.asarray(curve, dtype=np.float64)
    return len(slots) > 2 and bool(min(slots[0], slots[-1]) > slots[1:-1].max() + RISE * slots.mean())


def basin_layer(readings: Mapping[int, Floats]) -> int | None:
    """The shallowest layer whose mean curve is a basin for every number of documents; None where there is none.

    Args:
        readings: by number of documents D, what `read_slots` gave: (prompts, layers, D).
    """
    means = [reading.mean(axis=0) for count, reading in readings.items() if count > 2]
    if not means:
        return None
    return next((layer for layer in range(len(means[0])) if all(is_basin(mean[layer]) for mean in means)), None)


def curve(reading: Floats, layers: tuple[int, int]) -> Curve:
    """The curve of one number of documents D from readings (prompts, layers, D).

    Each prompt's attention is divided by its mean over the slots first, so that every prompt counts alike:
    attention per token falls with the length of a prompt.
    """
    chosen = reading[:, layers[0] : layers[1] + 1].mean(axis=1)
    relative = chosen / chosen.mean(axis=1, keepdims=True)
    error = relative.std(axis=0, ddof=1) / np.sqrt(len(relative)) if len(relative) > 1 else np.zeros(relative.shape[1])
    return Curve(
        prompts=len(relative),
        attention=tuple(round(float(value), 4) for value in relative.mean(axis=0)),
        error=tuple(round(float(value), 4) for value in error),
    )


def require_layer(engine: AttentionEngine, layer: int) -> None:
    """Raise `ConfigError` for a layer outside the model."""
    if not 0 <= layer < engine.layers:
        raise ConfigError(f"layer {layer} is outside the model; accepted: 0 to {engine.layers - 1}")


def slot_profile(
    engine: AttentionEngine, readings: Mapping[int, Floats], data: str, layer: int | None = None
) -> SlotProfile:
    """The profile of the engine's model.

    Args:
        readings: by number of documents D, what `read_slots` gave: (prompts, layers, D).
        data: what the prompts were made from, for people.
        layer: the one layer to take (`basin_layer` finds the one of the paper); None for the mean of all. The
            lowest layers look at what is near, so that the mean falls off towards the first slot.

    Raises:
        ConfigError: ``layer`` is outside the model.
    """
    if layer is not None:
        require_layer(engine, layer)
    layers = (0, engine.layers - 1) if layer is None else (layer, layer)
    info = engine.info()
    return SlotProfile(
        model=info["model"],
        fingerprint=info["fingerprint"],
        template=info["template"],
        layers=layers,
        data=data,
        curves={count: curve(reading, layers) for count, reading in sorted(readings.items())},
    )
