"""What the routes of stored corpora take and give."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from rag.api.fields import Count, DocumentId, Question
from rag.api.schemas import BudgetInput, ContextRequest, DocumentInput, Reply, StrictModel


class StoredDocument(DocumentInput):
    """One passage of a stored corpus."""

    model_config = ConfigDict(json_schema_extra=None)

    id: DocumentId = Field(description="By which it is replaced and deleted; a number is read as text.")


class StoredDocuments(StrictModel):
    """Documents to store."""

    documents: list[StoredDocument]


class DocumentIds(StrictModel):
    """Ids of stored documents."""

    ids: list[DocumentId]


class SearchRequest(StrictModel):
    """A question to a stored corpus, with the options of `/v1/context`."""

    query: Question
    top_n: Count | None = Field(default=None, description="How many documents reach the reader.")
    budget: BudgetInput | None = Field(default=None, description="How much text is kept. Default: as configured.")
    retrieve_k: Count | None = Field(default=None, description="How many candidates the reranker sees.")
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
