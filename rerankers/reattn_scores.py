"""The formulas of the ReAttn reconstruction (Tian et al., Findings of EACL 2026): pure functions over a map.

For document i of D with tokens j of calibrated attention c, summed over the heads::

    idf(t) = log((D + 1) / (df(t) + 1)) + 1        df(t): candidates that hold the word t
    w(t)   = idf(t) / idf of a word of one candidate, for words of the query; 1 for all other tokens
    b_ij   = w(t_j) max(c_ij, 0)      B_i = sum_j b_ij
    E_i    = entropy of b_ij / B_i over log |S_i|, from 0 (one token has it all) to 1 (spread evenly)
    s_i    = B_i / |S_i| ** length_power * (1 + lambda (E_i - mean of E))
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from rag.attention.reading import calibrated_attention
from rag.attention.types import AttentionMap, Head
from rag.rerankers.scores import LENGTH_POWER
from rag.words import Tokeniser

MIN_CANDIDATES = 5
"""Below this many candidates document frequencies say nothing, and every word has weight 1."""


def word_weights(answer: AttentionMap, query: str, words: Tokeniser) -> torch.Tensor:
    """w of each token (T,): the smallest weight of the query's words that it shares a character with, else 1."""
    count = len(answer.documents)
    weights = torch.ones(answer.token_ids.shape[0], dtype=torch.float64)
    asked = set(words(query))
    if count < MIN_CANDIDATES or not asked:
        return weights
    located = [words.located(document.text) for document in answer.documents]
    frequency: Counter[str] = Counter()
    for document, found in zip(answer.documents, located, strict=True):
        frequency.update(asked & {*(term for term, _ in found), *words(document.title)})
    rarest = _idf(count, 1)
    of_word = {term: _idf(count, frequency[term]) / rarest for term in asked}
    of_character: list[npt.NDArray[np.float64]] = []
    for document, found in zip(answer.documents, located, strict=True):
        characters = np.ones(len(document.text))
        for term, (start, end) in found:
            if term in of_word:
                characters[start:end] = np.minimum(characters[start:end], of_word[term])
        of_character.append(characters)
    for block in answer.blocks:
        characters = of_character[block.document]
        for place, (start, end) in enumerate(block.offsets, block.tokens.start):
            if 0 <= start < end:
                weights[place] = float(characters[start:end].min())
    return weights


def _idf(count: int, frequency: int) -> float:
    return math.log((count + 1) / (frequency + 1)) + 1


def spread_of(mass: torch.Tensor) -> float:
    """Entropy of non-negative masses (n,) over its maximum: 0 where one has all or there are none, 1 where equal."""
    total = mass.sum()
    if mass.shape[0] < 2 or not float(total) > 0:
        return 0.0
    share = mass / total
    return float(-torch.xlogy(share, share).sum()) / math.log(mass.shape[0])


def reattn_scores(
    answer: AttentionMap,
    weights: torch.Tensor,
    heads: Sequence[Head] | None = None,
    spread: float = 0.0,
    length_power: float = LENGTH_POWER,
) -> torch.Tensor:
    """Document scores (D,) of the module's formula; ``weights`` (T,) are those of `word_weights`.

    Of a document that was read in several windows the one with the most weighted attention counts; one without text
    has no window and gets -inf.
    """
    attention = calibrated_attention(answer, heads).double().sum(0).clamp(min=0) * weights
    mass = [-math.inf] * len(answer.documents)
    entropy = [0.0] * len(answer.documents)
    for block in answer.blocks:
        tokens = attention[slice(*block.tokens)]
        here = float(tokens.sum()) / tokens.shape[0] ** length_power
        if here > mass[block.document]:
            mass[block.document], entropy[block.document] = here, spread_of(tokens)
    read = [value for value, of in zip(entropy, mass, strict=True) if of > -math.inf]
    mean = sum(read) / len(read)
    return torch.tensor(
        [of * (1 + spread * (value - mean)) if of > -math.inf else of for of, value in zip(mass, entropy, strict=True)],
        dtype=torch.float64,
    )
