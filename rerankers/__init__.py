"""Rerankers: each method is one file over the shared attention map."""

from rag.rerankers.heads import HeadReranker
from rag.rerankers.icr import IcrReranker

__all__ = ["HeadReranker", "IcrReranker"]
