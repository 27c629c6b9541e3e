"""Compressors: choose the sentences that a reader model gets to see, under a budget.

Importing this package registers ``attention``, ``attention-rag``, ``sentinel``, ``sentinel-raw``, ``bm25``,
``dense``, ``first``, ``random`` and ``whole``; their libraries and models load on first use.
"""

from rag.compressors.attention import AttentionCompressor, SentinelRawCompressor
from rag.compressors.attention_rag import AttentionRagCompressor
from rag.compressors.base import SentenceCompressor
from rag.compressors.baselines import (
    BM25Compressor,
    DenseCompressor,
    FirstCompressor,
    RandomCompressor,
    WholeCompressor,
)
from rag.compressors.sentinel import SentinelCompressor
from rag.sentences import sentences

__all__ = [
    "AttentionCompressor",
    "AttentionRagCompressor",
    "BM25Compressor",
    "DenseCompressor",
    "FirstCompressor",
    "RandomCompressor",
    "SentenceCompressor",
    "SentinelCompressor",
    "SentinelRawCompressor",
    "WholeCompressor",
    "sentences",
]
