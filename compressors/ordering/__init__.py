"""Orderings: in which order the reader model sees the chosen documents.

Importing this package registers ``ranked``, ``reversed``, ``interleave``, ``document``, ``chronological``, ``shuffle``,
``attention-sort``, ``attnrank`` and ``found-in-the-middle``.
"""

from rag.compressors.ordering.attention_sort import AttentionSort
from rag.compressors.ordering.attnrank import AttnRank
from rag.compressors.ordering.chronological import Chronological
from rag.compressors.ordering.fixed import DocumentOrder, Interleave, Ranked, Reversed, Shuffle
from rag.compressors.ordering.found_in_the_middle import FoundInTheMiddle
from rag.compressors.ordering.slot_profile import SlotProfile

__all__ = [
    "AttentionSort",
    "AttnRank",
    "Chronological",
    "DocumentOrder",
    "FoundInTheMiddle",
    "Interleave",
    "Ranked",
    "Reversed",
    "Shuffle",
    "SlotProfile",
]
