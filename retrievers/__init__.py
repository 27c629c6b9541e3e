"""Retrievers: find the documents of a corpus that may answer a query.

Importing this package registers ``bm25``, ``rank-bm25``, ``dense`` and ``fused``; their libraries load on first use.
"""

from rag.retrievers.bm25 import BM25, RankBM25
from rag.retrievers.dense import Dense
from rag.retrievers.feedback import knn_feedback
from rag.retrievers.fused import Fused

__all__ = ["BM25", "Dense", "Fused", "RankBM25", "knn_feedback"]
