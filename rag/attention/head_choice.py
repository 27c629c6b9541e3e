"""Heads that a stage's option names: pairs, the file of a head list, or a published list."""

from __future__ import annotations

from pathlib import Path

from rag.attention import published
from rag.attention.decoder import Decoder
from rag.attention.heads import HeadList
from rag.attention.types import Head


def named_heads(
    given: tuple[Head, ...] | Path | str, decoder: Decoder, template: str, layout: str, task: str
) -> tuple[Head, ...]:
    """The heads that ``given`` stands for; see `rag.attention.engine.AttentionEngine.choose_heads`."""
    if isinstance(given, str | Path) and str(given).startswith(published.PREFIX):
        listed = published.find(str(given))
        listed.check(decoder.architecture, decoder.layers, decoder.heads_per_layer)
        published.warn_of_prompt(listed)
        return listed.heads
    if isinstance(given, str | Path):
        return HeadList.load(Path(given)).check(decoder.fingerprint, template, layout, task).heads
    heads = tuple(Head(*head) for head in given)
    decoder.require_heads(heads)
    return heads
