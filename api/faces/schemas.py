"""What the faces take and give, field by field as the services that they stand in for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from rag.api.fields import NOT_EMPTY, Count, Natural, NotBlank, Question, Whole, text_alone
from rag.api.schemas import BudgetInput, Characters, DocumentInput, Reply, SentenceReply, StrictModel

ANY_MODEL = "Any name. What answers is the model that is served (`/v1/models`)."
TopN = Annotated[Natural | None, Field(description="How many of the best; absent, null, 0 or too many: all.")]


# ---- Cohere ---------------------------------------------------------------------------------------------------------


class CohereRequest(StrictModel):
    """The body of Cohere's `/v2/rerank`."""

    model: str = Field(description=ANY_MODEL)
    query: Question
    documents: list[str] = Field(description="At least one.", json_schema_extra=NOT_EMPTY)
    top_n: TopN = None
    max_tokens_per_doc: Count | None = Field(
        default=None, description="Not applied: every document is read whole. A warning says so."
    )
    priority: Whole | None = Field(default=None, description="Not applied. A warning says so.")


class CohereResult(Reply):
    """One document."""

    index: int
    relevance_score: float = Field(description="In [0, 1], higher is better, comparable within one answer.")


class CohereVersion(Reply):
    """The version of Cohere's API that the route stands in for."""

    version: Literal["2"] = "2"
    is_experimental: Literal[False] = False


class CohereMeta(Reply):
    """What the answer cost, and what the caller should know."""

    api_version: CohereVersion = CohereVersion()
    billed_units: dict[str, int] = Field(description="`search_units`: one per 100 documents begun. Nothing is billed.")
    tokens: dict[str, int]
    warnings: list[str] | None = Field(default=None, description="Documents read in parts, fields not applied.")


class CohereResponse(Reply):
    """The documents, best first."""

    id: str
    results: list[CohereResult]
    meta: CohereMeta


# ---- Jina and vLLM --------------------------------------------------------------------------------------------------


class LenientModel(BaseModel):
    """A request as peers take it: types are strict, and fields that are not known are ignored, which a warning says."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    def ignored(self, where: str = "") -> list[str]:
        """The names of the given fields that nothing reads."""
        return [where + name for name in sorted(self.model_extra or {})]


class JinaDocument(LenientModel):
    """A document with its text; a plain string is short for it."""

    text: str

    _text_alone = model_validator(mode="before")(text_alone)


class JinaRequest(LenientModel):
    """The body of Jina's and vLLM's `/v1/rerank`."""

    model: str | None = Field(default=None, description=ANY_MODEL)
    query: Question
    documents: list[JinaDocument] = Field(
        description="At least one, a string or an object with a `text`.",
        json_schema_extra={
            **NOT_EMPTY,
            "items": {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/JinaDocument"}]},
        },
    )
    top_n: TopN = None
    return_documents: bool | None = Field(
        default=None, description="Whether each result carries its `document`. Default: true."
    )

    def not_read(self) -> list[str]:
        """The given fields that nothing reads, those of documents once each."""
        of_documents = {name: None for document in self.documents for name in document.ignored("documents[].")}
        return [*self.ignored(), *of_documents]


class JinaText(Reply):
    """A document as it was given."""

    text: str


class JinaResult(Reply):
    """One document."""

    index: int
    relevance_score: float = Field(description="In [0, 1], higher is better, comparable within one answer.")
    document: JinaText | None = None


class TokensUsed(Reply):
    """Tokens read, as the model counts them."""

    prompt_tokens: int
    total_tokens: int


class JinaResponse(Reply):
    """The documents, best first."""

    id: str
    model: str
    usage: TokensUsed
    results: list[JinaResult]
    warnings: list[str] | None = Field(default=None, description="Absent where there is nothing to say.")


class ScoreRequest(LenientModel):
    """The body of vLLM's `/v1/score`, for one query."""

    model: str | None = Field(default=None, description=ANY_MODEL)
    text_1: NotBlank | Annotated[list[NotBlank], Field(json_schema_extra=NOT_EMPTY | {"maxItems": 1})] = Field(
        description="The query: a string, or a list of one.",
        validation_alias=AliasChoices("text_1", "queries", "data_1"),
    )
    text_2: str | Annotated[list[str], Field(json_schema_extra=NOT_EMPTY)] = Field(
        description="What is scored: a string or a list of them.",
        validation_alias=AliasChoices("text_2", "documents", "items", "data_2"),
    )


class ScoreItem(Reply):
    """One text."""

    index: int
    object: Literal["score"] = "score"
    score: float = Field(description="In [0, 1], higher is better, comparable within one answer.")


class ScoreResponse(Reply):
    """The scores, in the order of the request."""

    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[ScoreItem]
    usage: TokensUsed
    warnings: list[str] | None = None


# ---- Text Embeddings Inference --------------------------------------------------------------------------------------


class TeiRequest(StrictModel):
    """The body of TEI's `/rerank`."""

    query: Question
    texts: list[str] = Field(description="At least one.", json_schema_extra=NOT_EMPTY)
    truncate: bool | None = Field(default=None, description="Nothing is ever cut: a long text is read in parts.")
    truncation_direction: Literal["left", "Left", "right", "Right"] = Field(
        default="right", description="Of no effect, since nothing is cut."
    )
    raw_scores: bool = Field(default=False, description="The reranker's own scores in place of numbers in [0, 1].")
    return_text: bool = False


class TeiResult(Reply):
    """One text."""

    index: int
    score: float
    text: str | None = None


# ---- Embeddings -----------------------------------------------------------------------------------------------------


class EmbeddingsRequest(StrictModel):
    """The body of OpenAI's `/v1/embeddings`."""

    input: NotBlank | Annotated[list[NotBlank], Field(json_schema_extra=NOT_EMPTY)] = Field(
        description="One text or several; none may be empty."
    )
    model: str | None = Field(default=None, description=ANY_MODEL)
    encoding_format: Literal["float", "base64"] = Field(
        default="float", description="`base64`: the little-endian 32-bit floats."
    )
    dimensions: Count | None = Field(default=None, description="The model's own number, or absent.")
    user: str | None = Field(default=None, description="Of no effect.")


class EmbeddingItem(Reply):
    """The unit vector of one text."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingsResponse(Reply):
    """The vectors, in the order of the request."""

    object: Literal["list"] = "list"
    data: list[EmbeddingItem]
    model: str
    usage: TokensUsed


class ModelCard(Reply):
    """One model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: Literal["rag-context"] = "rag-context"


class ModelsResponse(Reply):
    """The models that are served: the one that ranks and the one that embeds."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


# ---- Compression ----------------------------------------------------------------------------------------------------


class CompressRequest(StrictModel):
    """A question, passages, and how much of them may be kept."""

    query: Question
    documents: list[DocumentInput] = Field(description="Strings or objects. May be empty.")
    budget: BudgetInput | None = Field(
        default=None,
        description='How much text is kept, of all documents together: tokens as a number, `"50%"`, or an amount and '
        "its unit. Default: as configured.",
    )
    return_sentences: bool = Field(default=False, description="Whether each document lists its `sentences`.")


class CompressedReply(Reply):
    """What is kept of one document."""

    id: str
    index: int = Field(description="Position in the request's `documents`, from 0.")
    text: str = Field(description="The kept text: the spans, joined. Empty where nothing is kept.")
    spans: list[Characters] = Field(description="Kept `[start, end)` ranges, in Unicode code points of the text.")
    tokens_before: int
    tokens_after: int
    sentences: list[SentenceReply] | None = Field(default=None, description="Only with return_sentences.")


class CompressResponse(Reply):
    """One entry per document, in the order of the request."""

    id: str
    model: str
    query: str
    results: list[CompressedReply]
    tokens_before: int
    tokens_after: int
    warnings: list[str]
