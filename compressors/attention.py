"""Compressors that read sentence relevance from the attention pass the reranker already ran."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from rag.attention.types import Attender, AttentionSpec, Engine, Head
from rag.compressors.attention_scores import calibrated_tokens, last_row_shares, sentence_means
from rag.compressors.base import SentenceCompressor
from rag.compressors.budgeting import Floats
from rag.registry import register
from rag.types import Document, Query, Span


@register("compressor", "attention")
@dataclass(frozen=True, eq=False)
class AttentionCompressor(SentenceCompressor):
    """Sentences by calibrated attention per token, summed over a few heads.

    Args:
        engine: reads the attention where `compress` is not given a shared pass.
        heads: the heads to sum, or the file that `rag heads detect` wrote; None for the engine's own list
            for sentences.

    The other options are those of `SentenceCompressor`. Scores: in-context reranking (Chen et al., ICLR
    2025) with chosen heads (Zhang et al., EMNLP 2025), averaged over a sentence's tokens instead of summed
    over a document's.
    """

    engine: Engine = field(repr=False)
    _: KW_ONLY
    heads: tuple[Head, ...] | Path | None = None

    @property
    def spec(self) -> AttentionSpec:
        """What this stage reads, so that one pass can serve all stages."""
        return AttentionSpec(self.engine.choose_heads("sentence", self.heads), ("mean",), calibrated=True)

    def score(
        self,
        query: Query,
        documents: Sequence[Document],
        spans: Sequence[Sequence[Span]],
        attender: Attender | None,
    ) -> list[Floats]:
        """Mean calibrated attention per token."""
        spec = self.spec
        attention = (attender or self.engine).attend(query, documents, spec)
        tokens = calibrated_tokens(attention, spec.heads)
        return [means[0] for means in sentence_means(attention, spans, tokens[None])]


@register("compressor", "sentinel-raw")
@dataclass(frozen=True, eq=False)
class SentinelRawCompressor(SentenceCompressor):
    """Sentences by the last prompt row's attention: Sentinel without its probe (Zhang et al., 2505.23277).

    Args:
        engine: reads the attention where `compress` is not given a shared pass.
        heads: the heads to average; None for every head of the model, as published.

    Each head's row is renormalised to the context, averaged over a sentence's tokens, then over heads.
    """

    engine: Engine = field(repr=False)
    _: KW_ONLY
    heads: tuple[Head, ...] | None = None

    @property
    def spec(self) -> AttentionSpec:
        """What this stage reads, so that one pass can serve all stages."""
        heads = None if self.heads is None else tuple(Head(*head) for head in self.heads)
        return AttentionSpec(heads, ("last",))

    def score(
        self,
        query: Query,
        documents: Sequence[Document],
        spans: Sequence[Sequence[Span]],
        attender: Attender | None,
    ) -> list[Floats]:
        """Mean share of the context's attention per token, over all heads."""
        spec = self.spec
        attention = (attender or self.engine).attend(query, documents, spec)
        shares = last_row_shares(attention, spec.heads).mean(axis=0)
        return [means[0] for means in sentence_means(attention, spans, shares[None])]
