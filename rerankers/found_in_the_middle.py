"""Found in the middle: attention to a document less what its place and length alone would get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from rag.attention.types import Attender, AttentionMap, AttentionSpec, Head
from rag.errors import InputError
from rag.registry import register
from rag.rerankers.map_reranker import MapReranker
from rag.types import Document, Query

if TYPE_CHECKING:
    import torch

Bias = Literal["query", "document"]

FILLER = " and"
"""One token in the tokenizers of all models here: a document that says nothing is made of it."""


@register("reranker", "found-in-the-middle")
class FoundInTheMiddleReranker(MapReranker):
    """Ranks by rel(k) = Attn(document k) - bias(k) (Hsieh et al., Findings of ACL 2024, arXiv 2406.16008).

    Attn is the last row's attention, mean over heads and over the document's tokens. The paper's figures and details
    are known from a summary only (UNVERIFIED); what its content-free document holds is not in it.

    In the causal layout bias(k) is what slot k gets whatever stands there. In the block layout all documents share
    positions, so there is no slot: bias(k) then only depends on the length of document k (the distance of its
    tokens from the query) and on the other candidates, which share the softmax.

    Args:
        engine: reads attention where no shared pass is given, and always the passes over content-free documents.
        heads: the heads that are averaged, as (layer, head) pairs; None for all of them, as published.
        bias: "query" reads the same documents with a content-free query ("N/A"), in the same pass: cheap, and it
            takes out what a token gets from every query. "document" is the published way: a pass per candidate
            in which a filler of the same length stands in its place.

    Raises:
        InputError: an unknown ``bias``.
    """

    note = "found_in_the_middle"

    def __init__(self, engine: Attender, *, heads: tuple[Head, ...] | None = None, bias: Bias = "query") -> None:
        if bias not in get_args(Bias):
            raise InputError(f"bias {bias!r}; accepted: {', '.join(get_args(Bias))}")
        self._bias = bias
        super().__init__(engine, AttentionSpec(heads, ("last",), calibrated=bias == "query"))

    def score(self, query: Query, answer: AttentionMap) -> torch.Tensor:
        """rel (D,) of each document."""
        import torch

        from rag.rerankers.row_scores import attention_sorting_scores, calibrated_last_row_scores

        if self._bias == "query":
            return calibrated_last_row_scores(answer, self.spec.heads)
        documents = answer.documents
        bias = []
        for place, dummy in enumerate(self._fillers(documents)):
            swapped = (*documents[:place], dummy, *documents[place + 1 :])
            # A pass of its own: no stage has read the filler, and none will ask for it.
            read = self._engine.attend(query, swapped, self.spec)
            bias.append(attention_sorting_scores(read, self.spec.heads)[place])
        return attention_sorting_scores(answer, self.spec.heads) - torch.stack(bias)

    def _fillers(self, documents: tuple[Document, ...]) -> list[Document]:
        """Documents that say nothing, with as many tokens of title and text as the given ones."""
        titles = self._engine.count_tokens([document.title.strip() for document in documents])
        texts = self._engine.count_tokens([document.text for document in documents])
        return [
            Document(document.id, FILLER * text, (FILLER * title).strip())
            for document, title, text in zip(documents, titles, texts, strict=True)
        ]
