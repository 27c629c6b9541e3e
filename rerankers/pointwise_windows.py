"""What methods share that read one document at a time through a causal language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rag.attention.windows import token_windows
from rag.checks import full_text
from rag.errors import ConfigError, QueryTooLongError
from rag.sentences import sentences
from rag.types import Document, Span

if TYPE_CHECKING:
    import torch

    from rag.models.causal import CausalLM, TokenIds

WINDOW_TOKENS = 512


class Frame(NamedTuple):
    """The tokens before and after a document, the same for all documents of one query."""

    before: TokenIds
    after: TokenIds


def require_window(window_tokens: int) -> int:
    """``window_tokens``, or a `ConfigError` where no text fits into such a window."""
    if window_tokens < 8:
        raise ConfigError(f"window_tokens must be at least 8, given {window_tokens}")
    return window_tokens


def log_probabilities(
    model: CausalLM, documents: Sequence[Document], frame: Frame, continuation: TokenIds, window_tokens: int
) -> tuple[torch.Tensor, list[int]]:
    """log P of each token of ``continuation`` after frame and document: (windows, tokens), and each window's document.

    Title and text are read together. A document longer than ``window_tokens`` is read in windows that end on sentence
    borders and overlap by up to an eighth; all of it is read.

    Raises:
        QueryTooLongError: frame, window and continuation together are longer than the model reads.
    """
    around = len(frame.before) + len(frame.after) + len(continuation)
    if window_tokens + around > model.positions:
        raise QueryTooLongError(
            f"the query and the words around the document have {around} tokens; accepted by {model.model_name!r}, "
            f"which reads {model.positions} with windows of {window_tokens}: up to {model.positions - window_tokens}"
        )
    contexts: list[TokenIds] = []
    owners: list[int] = []
    for owner, document in enumerate(documents):
        text = full_text(document)
        ids, offsets = model.content(text)
        ranges = [Span(0, len(ids))]
        if len(ids) > window_tokens:
            ranges = token_windows(offsets, sentences(text), window_tokens, window_tokens // 8)
        contexts += [(*frame.before, *ids[start:end], *frame.after) for start, end in ranges]
        owners += [owner] * len(ranges)
    return model.log_probabilities(contexts, continuation), owners
