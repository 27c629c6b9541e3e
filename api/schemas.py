"""What the service takes and gives, as pydantic models that mirror `rag.results`.

A request is strict: no unknown field, no silent conversion ("5" is not 5). A response never holds
NaN, infinity or a null score.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, JsonValue, field_validator, model_validator
from pydantic_core import PydanticCustomError

from rag.api.examples import CONTEXT_REQUEST, CONTEXT_RESPONSE
from rag.api.fields import Count, DocumentId, Question, budget_forms, or_string, text_alone
from rag.config import BudgetSettings
from rag.results import ContextResult, DropReason
from rag.types import Document


class StrictModel(BaseModel):
    """A part of a request: an unknown field is refused with the list of those that are accepted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, value: Any) -> Any:
        if isinstance(value, dict):
            unknown = next((name for name in value if name not in cls.model_fields), None)
            if unknown is not None:
                accepted = {"field": str(unknown), "accepted": ", ".join(cls.model_fields)}
                raise PydanticCustomError("unknown_field", "unknown field; accepted: {accepted}", accepted)
        return value


class DocumentInput(StrictModel):
    """One passage; a plain string is short for an object with that `text`."""

    model_config = ConfigDict(json_schema_extra=or_string)

    id: DocumentId | None = Field(
        default=None, description="Unique among the documents; a number is read as text. Default: the position."
    )
    text: str = Field(description="The passage. May be empty: it is then ranked last and marked.")
    title: str | None = Field(default=None, description="Read together with the text; never compressed.")
    metadata: dict[str, JsonValue] | None = Field(default=None, description="Handed back untouched.")

    _text_alone = model_validator(mode="before")(text_alone)

    @field_validator("metadata")
    @classmethod
    def _finite(cls, value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            raise ValueError("metadata holds a number outside the range of a 64-bit float") from None
        return value

    def document(self, position: int) -> Document:
        """The same as the library's own type."""
        name = str(position) if self.id is None else self.id
        return Document(name, self.text, self.title or "", self.metadata or {})


class BudgetInput(StrictModel, BudgetSettings):
    """An upper bound on the kept text, never exceeded: `512` and `"50%"` are short for an amount with its unit."""

    model_config = ConfigDict(json_schema_extra=budget_forms)


class ContextRequest(StrictModel):
    """A question and the passages that may answer it."""

    model_config = ConfigDict(json_schema_extra={"examples": [CONTEXT_REQUEST]})

    query: Question
    documents: list[DocumentInput] = Field(description="The corpus: strings or objects. May be empty.")
    top_n: Count | None = Field(
        default=None,
        description="How many documents reach the reader; above the number of documents: all. Default: as configured.",
    )
    budget: BudgetInput | None = Field(
        default=None,
        description='How much text is kept: tokens as a number, `"50%"`, or an amount and its unit. '
        'Default: as configured. `"100%"` keeps everything.',
    )
    retrieve_k: Count | None = Field(
        default=None, description="How many candidates the reranker sees. Default: as configured."
    )
    return_text: bool = Field(default=True, description="Whether each result carries its kept `text`.")
    return_sentences: bool = Field(default=True, description="Whether each result lists its `sentences` and scores.")

    def corpus(self) -> list[Document]:
        """The documents as the library's own type."""
        return [document.document(position) for position, document in enumerate(self.documents)]


class Reply(BaseModel):
    """A part of a response, made from the library's dataclass of the same fields."""

    model_config = ConfigDict(from_attributes=True, allow_inf_nan=False, frozen=True)


Characters = tuple[int, int]
"""``[start, end)`` in Unicode code points of the document's text."""


class SentenceReply(Reply):
    """One sentence of a result's document."""

    span: Characters = Field(description="`[start, end)` in Unicode code points of the document's text.")
    score: float = Field(description="How much the model's attention to it says it answers the query.")
    kept: bool = Field(description="Whether it is part of the context.")


class ResultReply(Reply):
    """One document of the context. Results come in the order the reader should see them."""

    id: str
    index: int = Field(description="Position in the request's `documents`, from 0.")
    rank: int = Field(description="1 is best.")
    score: float = Field(description="Score of the last ranking stage; higher is better.")
    scores: dict[str, FiniteFloat] = Field(description="The score each stage or signal gave.")
    title: str
    text: str | None = Field(default=None, description="The kept text: the spans, joined. Absent without return_text.")
    spans: tuple[Characters, ...] = Field(description="Kept `[start, end)` ranges, in Unicode code points of the text.")
    sentences: tuple[SentenceReply, ...] | None = Field(default=None, description="Absent without return_sentences.")
    tokens_before: int = Field(description="Tokens of the whole document.")
    tokens_after: int = Field(description="Tokens of what is kept.")
    truncated: Literal[False] = Field(default=False, description="Always false: nothing is cut off unread.")
    windowed: bool = Field(description="The document was longer than the model's window and was read in parts.")
    windows: int = Field(description="In how many overlapping parts it was read; 0 for an empty document.")
    empty: bool = Field(description="The document has neither text nor title; ranked last.")
    metadata: dict[str, Any]


class DroppedReply(Reply):
    """A document that is not in the context, and why."""

    id: str
    index: int
    reason: DropReason
    detail: str
    rank: int | None = Field(default=None, description="Absent where the document was never ranked.")
    score: float | None = Field(default=None, description="Absent where the document was never scored.")


class UsageReply(Reply):
    """Tokens, as the attention model counts them."""

    query_tokens: int
    corpus_tokens: int
    context_tokens: int
    saved_tokens: int = Field(description="corpus_tokens - context_tokens: what the reader model need not read.")
    encoded_tokens: int = Field(description="Document tokens that had to be read for this request.")
    cached_blocks: int = Field(description="Document windows that were still known from earlier requests.")


class StageReply(Reply):
    """What one stage of the pipeline did."""

    stage: str
    name: str = Field(description="The stage's registered name; its options are in `/info`.")
    seconds: float
    documents_in: int
    documents_out: int
    tokens_in: int | None = None
    tokens_out: int | None = None
    details: dict[str, Any] = Field(default_factory=dict)

    @field_validator("name")
    @classmethod
    def _without_options(cls, value: str) -> str:
        # The trace writes options behind the name, among them the paths of files on the serving machine.
        return value.partition("(")[0]


class StageCandidate(Reply):
    """A document as a ranking or ordering stage left it, best (or first to be read) first."""

    id: str
    index: int = Field(description="Position in the request's `documents`, from 0.")
    rank: int
    score: float


class StageKept(Reply):
    """What a compressor kept of a document."""

    id: str
    index: int = Field(description="Position in the request's `documents`, from 0.")
    spans: tuple[Characters, ...]


class StageEvent(StageReply):
    """The data of a `stage` event: what the stage did, and the documents it gave."""

    documents: tuple[StageCandidate | StageKept, ...]


class ContextResponse(Reply):
    """Ranked, compressed, ordered context and an account of everything on the way."""

    model_config = ConfigDict(json_schema_extra={"examples": [CONTEXT_RESPONSE]})

    id: str = Field(description="The request id, as in the X-Request-Id header.")
    model: str = Field(description="The attention model.")
    query: str
    results: tuple[ResultReply, ...] = Field(description="In reading order; `rank` says which is best.")
    context: str = Field(description="The results' text as one string, ready for the reader's prompt.")
    dropped: tuple[DroppedReply, ...]
    usage: UsageReply
    timings: dict[str, FiniteFloat] = Field(description="Seconds by stage, waiting (`queue`) and `total`.")
    stages: tuple[StageReply, ...]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, result: ContextResult, request: ContextRequest, *, id: str, model: str, queued: float) -> Self:
        """The response that tells ``result``.

        Raises:
            pydantic.ValidationError: a score is not a finite number.
        """
        timings = {"queue": queued}
        for stage in result.trace:
            timings[stage.stage] = timings.get(stage.stage, 0.0) + stage.seconds
        timings["total"] = queued + result.seconds
        hidden = {
            name
            for name, shown in (("text", request.return_text), ("sentences", request.return_sentences))
            if not shown
        }
        results = [
            {field.name: getattr(document, field.name) for field in fields(document) if field.name not in hidden}
            for document in result.results
        ]
        return cls.model_validate(
            {
                "id": id,
                "model": model,
                "query": result.query,
                "results": results,
                "context": result.context,
                "dropped": result.dropped,
                "usage": result.usage,
                "timings": timings,
                "stages": result.trace,
                "warnings": result.warnings,
            }
        )


class LiveResponse(Reply):
    """The process answers."""

    live: Literal[True] = True


class HealthResponse(LiveResponse):
    """Whether the process lives (it answered) and whether it can do its work."""

    ready: bool = Field(description="The models are loaded and the queue has room.")
    status: Literal["loading", "ready", "overloaded", "failed"]
    detail: str = Field(default="", description="Why it is not ready.")
    pending: int = Field(description="Requests running or waiting.")


class InfoResponse(Reply):
    """What this service is and what it accepts."""

    versions: dict[str, str]
    model: dict[str, Any] = Field(description="The attention model: name, layout, size, and whether it is loaded.")
    heads: tuple[str, ...] | None = Field(
        description="Heads that are read, as layer-head; none before loading. Null: every one."
    )
    limits: dict[str, int] = Field(description="Upper bounds; a request above one of them is refused, never cut.")
    defaults: dict[str, Any] = Field(description="What applies where a request leaves a field out.")
    stages: dict[str, Any] = Field(description="The configured stages with their options. Null: the stage is off.")
    cache: dict[str, int] = Field(description="Documents kept as blocks, and how often they were used again.")
