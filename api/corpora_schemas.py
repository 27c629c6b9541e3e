"""What the routes of stored corpora take and give."""

from __future__ import annotations

from pydantic import Field

from rag.api.schemas import BudgetInput, ContextRequest, DocumentInput, Reply, StrictModel


class StoredDocuments(StrictModel):
    """Documents to store. Each has an `id`, by which it is replaced and deleted."""

    documents: list[DocumentInput]


class DocumentIds(StrictModel):
    """Ids of stored documents."""

    ids: list[str]


class SearchRequest(StrictModel):
    """A question to a stored corpus, with the options of `/v1/context`."""

    query: str = Field(description="The question. At least one character that is not white space.")
    top_n: int | None = Field(default=None, ge=1, description="How many documents reach the reader.")
    budget: BudgetInput | None = Field(default=None, description="How much text is kept. Default: as configured.")
    retrieve_k: int | None = Field(default=None, ge=1, description="How many candidates the reranker sees.")
    return_text: bool = Field(default=True, description="Whether each result carries its kept `text`.")
    return_sentences: bool = Field(default=True, description="Whether each result lists its `sentences` and scores.")

    def options(self) -> ContextRequest:
        """The same as a request to `/v1/context`, without its documents."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return ContextRequest.model_construct(documents=[], **given)


class CorpusReply(Reply):
    """A stored corpus."""

    name: str
    documents: int = Field(description="How many it holds.")
    bytes: int = Field(description="Its size as JSON lines.")


class CorporaReply(Reply):
    """The stored corpora that the key may use, by name."""

    corpora: list[CorpusReply]


class CorpusContentReply(CorpusReply):
    """A stored corpus and what is in it."""

    ids: list[str] = Field(description="The ids of its documents, in the order in which they came first.")


class CorpusChangeReply(CorpusReply):
    """A corpus after a change, and how many documents the change was about."""

    added: int = 0
    replaced: int = 0
    deleted: int = 0
    unknown: list[str] = Field(default=[], description="Ids to delete that were not there.")
