"""A typed client of the HTTP service, blocking and async; it loads neither a model nor torch.

from rag.client import Client

with Client("http://localhost:8484") as client:
    answer = client.context("How deep is the harbour?", ["The harbour is 14 m deep.", "Boats are blue."], top_n=1)
    print(answer.context)
"""

from __future__ import annotations

from rag.api.corpora_schemas import CorpusChangeReply, CorpusContentReply, CorpusReply
from rag.api.faces.schemas import CompressResponse, JinaResponse
from rag.api.schemas import ContextResponse
from rag.client.awaiting import AsyncClient
from rag.client.blocking import Client
from rag.client.errors import ServiceError

__all__ = [
    "AsyncClient",
    "Client",
    "CompressResponse",
    "ContextResponse",
    "CorpusChangeReply",
    "CorpusContentReply",
    "CorpusReply",
    "JinaResponse",
    "ServiceError",
]
