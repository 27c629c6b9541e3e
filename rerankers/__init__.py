"""Rerankers: each method is one file over the shared attention map."""

from rag.rerankers.attention_sorting import AttentionSortingReranker
from rag.rerankers.blockrank import BlockRankReranker
from rag.rerankers.calibrated import CalibratedReranker
from rag.rerankers.cross_encoder import CrossEncoderReranker
from rag.rerankers.distracting import DistractingReranker, distracting_effect
from rag.rerankers.found_in_the_middle import FoundInTheMiddleReranker
from rag.rerankers.heads import HeadReranker
from rag.rerankers.icr import IcrReranker
from rag.rerankers.ltr import LambdaMartReranker
from rag.rerankers.permutation_average import PermutationAverageReranker
from rag.rerankers.pointwise import PointwiseReranker
from rag.rerankers.probe import ProbeReranker
from rag.rerankers.reattn import ReAttnReranker

__all__ = [
    "AttentionSortingReranker",
    "BlockRankReranker",
    "CalibratedReranker",
    "CrossEncoderReranker",
    "DistractingReranker",
    "FoundInTheMiddleReranker",
    "HeadReranker",
    "IcrReranker",
    "LambdaMartReranker",
    "PermutationAverageReranker",
    "PointwiseReranker",
    "ProbeReranker",
    "ReAttnReranker",
    "distracting_effect",
]
