"""Found in the middle: rank by the attention that a document gets beyond what its place alone would give it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from rag.attention.types import Attender, AttentionSpec, Engine, Head
from rag.compressors.ordering.document_attention import Floats, document_attention, layer_attention
from rag.compressors.ordering.permutations import descending
from rag.compressors.ordering.slot_profile import SlotProfile, choose_profile
from rag.errors import ConfigError
from rag.registry import register
from rag.types import Query, ScoredDocument

Bias = Literal["query", "profile"]


@register("ordering", "found-in-the-middle")
class FoundInTheMiddle:
    """Most relevant first by rel(k) = attention(document at k) - bias(k) (Hsieh et al., arXiv 2406.16008).

    Attention is the mean over heads and over a document's tokens. The paper (known from a summary only, UNVERIFIED)
    measures bias(k) with a dummy document put at every place: as many passes as documents. Cheaper here:

    - ``query``: what the last row of a content-free query ("N/A") gives the same tokens, read in the same
      pass, which other stages share. In the engine's block layout no document has a place of its own, and
      what is taken away is the bias of the tokens alone;
    - ``profile``: the measured `SlotProfile` of the model, for the causal layout. Row and layers are those of
      the profile; both sides are divided by their mean over the documents, since attention per token falls
      with the length of a prompt. Always a pass of its own, over the documents in the order they are given.

    Args:
        engine: reads the attention where `order` is not given a shared pass.
        bias: what is taken away.
        profile: file of a profile (with ``bias="profile"``); None for the one that ships for the model.
        heads: the heads that are averaged (with ``bias="query"``); None for all, as published.

    Raises:
        ConfigError: an unknown bias, an option that belongs to the other one, a profile with the block layout, or
            no profile for the model.
        ArtefactError: a file that is no profile, or one of another model or wording.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        bias: Bias = "query",
        profile: Path | None = None,
        heads: tuple[Head, ...] | None = None,
    ) -> None:
        if bias not in get_args(Bias):
            raise ConfigError(f"bias {bias!r}; accepted: {', '.join(get_args(Bias))}")
        if bias == "query" and profile is not None:
            raise ConfigError(f"profile {str(profile)!r} with bias 'query'; accepted: with bias 'profile'")
        if bias == "profile" and heads is not None:
            raise ConfigError("heads with bias 'profile'; accepted: none, the layers of the profile are read")
        self._engine = engine
        self._profile: SlotProfile | None = None
        # With a profile nothing is shared: a pass in another order does not fit it.
        self.spec: AttentionSpec | None = None
        if bias == "query":
            self.spec = AttentionSpec(heads and tuple(Head(*head) for head in heads), ("last",), calibrated=True)
            return
        info = engine.info()
        if info["layout"] != "causal":
            raise ConfigError(f"bias 'profile' with layout {info['layout']!r}; accepted: the causal layout")
        self._profile = choose_profile(profile, info["fingerprint"], info["template"])

    def order(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """Documents by rel, the most relevant first; equals keep their order, empty documents come last."""
        full = [item for item in documents if not item.document.is_empty]
        empty = [item for item in documents if item.document.is_empty]
        if not full:
            return empty
        rel = self._relevance(query, full, attender or self._engine)
        return [*(full[i] for i in descending(rel.tolist())), *empty]

    def _relevance(self, query: Query, full: Sequence[ScoredDocument], attender: Attender) -> Floats:
        documents = [item.document for item in full]
        if self._profile is None:
            assert self.spec is not None
            attention = attender.attend(query, documents, self.spec)
            return document_attention(attention, self.spec.heads, calibrated=True)
        first, last = self._profile.layers
        heads = tuple(head for head in self._engine.all_heads() if first <= head.layer <= last)
        slots = layer_attention(self._engine.attend(query, documents, AttentionSpec(heads))).mean(axis=0)
        rel: Floats = slots / slots.mean() - self._profile.slots(len(full))
        return rel
