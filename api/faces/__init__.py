"""The routes of other services over one ranking, so that their clients work here: Cohere, Jina and vLLM, TEI, OpenAI.

`rag.api.faces.install` adds them to an application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI
    from fastapi.params import Depends

    from rag.api.service import ContextService


def install(app: FastAPI, service: ContextService, dependencies: Sequence[Depends]) -> None:
    """Add every face's routes and the shapes of its errors; all rank through one `Ranker` over ``service``."""
    from rag.api.faces import cohere, compress, embeddings, jina, score
    from rag.api.faces.ranking import Ranker
    from rag.api.faces.shapes import BY_PATH

    app.state.ranker = Ranker(service)
    app.state.error_shapes = BY_PATH
    for face in (cohere, jina, score, compress, embeddings):
        app.include_router(face.router, dependencies=dependencies)
