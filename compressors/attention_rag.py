"""AttentionRAG: a sentence matters where the first word of the answer looks at it."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property

import numpy as np

from rag.attention.types import Attender, Engine
from rag.compressors.anchor import AnchorReader
from rag.compressors.attention_scores import token_owners
from rag.compressors.base import SentenceCompressor
from rag.compressors.budgeting import Floats, Objective
from rag.compressors.hints import FALLBACK, question_hint
from rag.errors import ConfigError
from rag.registry import register
from rag.types import Document, Query, Span

_GATED = -1e-3  # just below a sentence without a top token


@register("compressor", "attention-rag")
@dataclass(frozen=True, eq=False)
class AttentionRagCompressor(SentenceCompressor):
    """Sentences by the attention of a predicted answer word (AttentionRAG, Fang et al., arXiv 2503.10720).

    Each document is read in chunks, each in a prompt of its own with the question and the beginning of its answer.
    The model predicts one token, the anchor; that token's attention to the chunk is summed over all layers and
    averaged over heads. A sentence scores the attention of those of its tokens that are among the ``top_k`` of their
    chunk, 0 where none is. No calibration, no filter of attention sinks, as published: with SmolLM2-135M a single
    "the" can take half of a chunk's attention, and its anchor before a number is the space (digits are tokens of
    their own). It is here to be compared with; the default compressor is calibrated against such sinks.

    Args:
        engine: counts tokens, and says which model is read: the same weights are loaded a second time, with
            their language-model head. Its block cache and a shared pass are of no use here: a causal prompt of its
            own per chunk is what the method is, and it costs one pass over all documents for every question.
        hint: makes the beginning of the answer from the question's text; None from it, and an empty one, stand for
            "The answer is". Any callable, so an LLM too; a configuration file cannot name one.
        chunk_tokens: most tokens of one chunk, of whole sentences. The default and that of ``top_k`` are those of a
            re-implementation; the paper's are UNVERIFIED.
        top_k: how many tokens of each chunk count.
        gate: where the anchor is "none", the chunk's sentences rank below all others. They are not deleted: what
            the budget has room for is still kept, so that a single chunk that is judged wrongly cannot leave an empty
            context. A ``threshold`` of 0 deletes them, and with ``min_keep`` 0 all of them.

    The published rule, every sentence with a top token and nothing else, is a ``threshold`` just above 0 and a
    budget of everything. The other options are those of `SentenceCompressor`; ``objective`` "sum" keeps as much
    of the top tokens' attention as the budget allows.
    """

    engine: Engine = field(repr=False)
    _: KW_ONLY
    objective: Objective = "sum"
    hint: Callable[[str], str | None] = question_hint
    chunk_tokens: int = 300
    top_k: int = 12
    gate: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("chunk_tokens", self.chunk_tokens), ("top_k", self.top_k)):
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, given {value}")

    @cached_property
    def _reader(self) -> AnchorReader:
        loaded = self.engine.info()
        return AnchorReader(loaded["model"], device=loaded["device"], dtype=loaded["dtype"])

    def score(
        self,
        query: Query,
        documents: Sequence[Document],
        spans: Sequence[Sequence[Span]],
        attender: Attender | None,
    ) -> list[Floats]:
        """The summed attention to a sentence's top tokens; below 0 in a chunk whose anchor is "none"."""
        del attender
        chunks = self._reader.chunks(documents, spans, self.chunk_tokens)
        anchors = self._reader.read(query.full_text, self.hint(query.text) or FALLBACK, chunks)
        scores = [np.full(len(of), _GATED) for of in spans]
        for chunk, anchor in zip(chunks, anchors, strict=True):
            if self.gate and anchor.is_none:
                continue
            here, owner = scores[chunk.document], token_owners(chunk.offsets, spans[chunk.document])
            here[owner[owner >= 0]] = np.maximum(here[owner[owner >= 0]], 0.0)
            best = np.argsort(-anchor.attention, kind="stable")[: self.top_k]
            best = best[owner[best] >= 0]
            np.add.at(here, owner[best], anchor.attention[best])
        return scores
