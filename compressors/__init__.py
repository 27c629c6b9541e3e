"""Compressors: choose the sentences that a reader model gets to see, under a budget.

Importing this package registers ``attention``, ``sentinel-raw``, ``bm25``, ``dense``, ``first``, ``random`` and
``whole``; their libraries and models load on first use.
"""

from rag.compressors.attention import AttentionCompressor, SentinelRawCompressor
from rag.compressors.base import SentenceCompressor
from rag.compressors.baselines import (
    BM25Compressor,
    DenseCompressor,
    FirstCompressor,
    RandomCompressor,
    WholeCompressor,
)
from rag.sentences import sentences

__all__ = [
    "AttentionCompressor",
    "BM25Compressor",
    "DenseCompressor",
    "FirstCompressor",
    "RandomCompressor",
    "SentenceCompressor",
    "SentinelRawCompressor",
    "WholeCompressor",
    "sentences",
]
