"""The face of Text Embeddings Inference, for bodies with ``texts``: a bare array, its own errors and codes."""

from __future__ import annotations

from fastapi import Request, Response
from pydantic import TypeAdapter

from rag.api.faces.ranking import ranker_of
from rag.api.faces.schemas import TeiRequest, TeiResult

_ANSWER = TypeAdapter(list[TeiResult])


async def rerank(body: TeiRequest, request: Request) -> Response:
    """The texts, best first, equal ones in the order given. ``score`` is in [0, 1] unless raw scores are asked for."""
    ranking = await ranker_of(request).rank(request, body.query, body.texts, field="texts")
    reply = [
        TeiResult(
            index=text.index,
            score=text.score if body.raw_scores else text.relevance,
            text=body.texts[text.index] if body.return_text else None,
        )
        for text in ranking.texts
    ]
    return Response(_ANSWER.dump_json(reply, exclude_none=True), media_type="application/json")
