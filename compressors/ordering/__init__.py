"""Orderings: in which order the reader model sees the chosen documents.

Importing this package registers ``ranked``, ``reversed``, ``interleave``, ``document`` and ``attention-sort``.
"""

from rag.compressors.ordering.attention_sort import AttentionSort
from rag.compressors.ordering.fixed import DocumentOrder, Interleave, Ranked, Reversed

__all__ = ["AttentionSort", "DocumentOrder", "Interleave", "Ranked", "Reversed"]
