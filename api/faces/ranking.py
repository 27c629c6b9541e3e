"""The one ranking under all faces: the service's retriever and reranker over every text of a request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from pydantic import BaseModel

from rag.api.connection import timeout_of, while_connected
from rag.api.errors import ApiError
from rag.api.tickets import Ticket
from rag.checks import as_query, check_count, check_limits
from rag.corpus import as_documents
from rag.models import public_name
from rag.pipeline import Pipeline

if TYPE_CHECKING:
    from rag.api.service import ContextService
    from rag.results import ContextDocument


@dataclass(frozen=True, slots=True)
class RankedText:
    """One text: its position in the request, the reranker's score, and its relevance in [0, 1] (see `relevances`)."""

    index: int
    score: float
    relevance: float
    windows: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best texts of a request, best first; ``tokens`` are those of the query and of all texts."""

    texts: tuple[RankedText, ...]
    tokens: int

    def warnings(self) -> list[str]:
        """What a caller should know about texts that are longer than the model's window. None is ever cut."""
        return [
            f"document {text.index} is longer than the model's window: read whole, in {text.windows} overlapping parts"
            for text in sorted(self.texts, key=lambda text: text.index)
            if text.windows > 1
        ]


class Ranker:
    """Ranks for every face, through a pipeline of the service's own retriever and reranker and nothing behind them."""

    def __init__(self, service: ContextService) -> None:
        alone = {"compressor": None, "ordering": None, "budget": None}
        self._service = service
        self._pipeline = Pipeline(
            service.pipeline.settings.model_copy(update=alone),
            engine=service.pipeline.engine,
            embedder=service.pipeline.resources.embedder(),
        )

    async def rank(
        self, request: Request, query: str, texts: Sequence[str], top_n: int | None = None, *, field: str = "documents"
    ) -> Ranking:
        """Rank all of ``texts`` and return the best ``top_n`` (None or 0: all; more than there are: all).

        Args:
            request: its client and its ``X-Request-Timeout``; where the client goes away, the work is not done.
            field: what the face calls the texts, for errors.

        Raises:
            ApiError: no texts (400), the queue is full (429), the time is over (504).
            RagError: as `rag.pipeline.Pipeline.run`.
        """
        if not texts:
            raise ApiError(400, f"{field} is empty; accepted: at least 1 text", code="no_documents", param=field)
        limits = self._pipeline.settings.limits
        check_count(len(texts), limits.documents)  # before a document is made of each
        question, documents = as_query(query), as_documents(texts)
        check_limits(documents, limits)
        ticket = Ticket(timeout_of(request))
        finished = await while_connected(
            request,
            self._service.run(
                lambda _: self._pipeline.run(
                    question,
                    documents,
                    top_n=top_n or len(documents),
                    retrieve_k=len(documents),
                    on_stage=lambda *_: ticket.check(),
                ),
                ticket,
            ),
        )
        result = finished.value
        self._service.metrics.result(result)
        best = sorted(result.results, key=lambda item: item.rank)
        return Ranking(
            tuple(
                RankedText(item.index, item.score, relevance, item.windows)
                for item, relevance in zip(best, relevances(best), strict=True)
            ),
            result.usage.query_tokens + result.usage.corpus_tokens,
        )


def relevances(best_first: Sequence[ContextDocument]) -> list[float]:
    """A number in [0, 1] per document that never rises from one rank to the next.

    The calibrated ``relevance`` where the reranker notes one (`rag.rerankers.calibrated`), held down to that of
    the document before; else the logistic function of the score, which orders as the scores do and is no
    probability: scores say how documents compare within one list. A document without text gets 0.
    """
    calibrated = any("relevance" in item.scores for item in best_first)
    out: list[float] = []
    for item in best_first:
        value = item.scores.get("relevance", 0.0) if calibrated else logistic(item.score)
        out.append(min(0.0 if item.empty else value, *out[-1:], 1.0))
    return out


def logistic(score: float) -> float:
    """1 / (1 + exp(-score)), without overflow."""
    small = math.exp(-abs(score))
    return (1.0 if score >= 0 else small) / (1.0 + small)


def ranker_of(request: Request) -> Ranker:
    """The application's ranker."""
    ranker: Ranker = request.app.state.ranker
    return ranker


def model_of(request: Request) -> str:
    """The name of the attention model that is served; a face takes any name in a request and answers with this one."""
    return public_name(request.app.state.service.pipeline.settings.model)


def json_reply(reply: BaseModel, **dump: Any) -> Response:
    """The answer as JSON, without fields that are None."""
    return Response(reply.model_dump_json(exclude_none=True, **dump), media_type="application/json")
