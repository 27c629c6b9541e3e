"""Sentinel: sentences by a small learned probe over the attention that the reranker's pass has read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from rag.attention.late_interaction import best_token_scores
from rag.attention.probe import Probe, attention_part
from rag.attention.reading import head_rows
from rag.attention.types import Attender, AttentionMap, AttentionSpec, Engine, Head
from rag.bridges import BRIDGES, Wording, bridged
from rag.compressors.attention_scores import sentence_means
from rag.compressors.base import SentenceCompressor, sentence_texts
from rag.compressors.budgeting import Floats, Objective
from rag.embedding import TextEmbedder, best_cosines
from rag.registry import register
from rag.standard_scores import standard_scores
from rag.types import Document, Query, Span

Spans = Sequence[Sequence[Span]]

SHARE_POWER = 0.75
"""Between the mean over a sentence's tokens (1), which favours short sentences, and their sum (0)."""


def share(answer: AttentionMap, spans: Spans, heads: Sequence[Head]) -> Floats:
    """Attention of the query's rows to each sentence, (H, S) for the S sentences of all documents in turn.

    Mean over rows, sum over the sentence's tokens over (tokens) ** `SHARE_POWER`. A sentence that no token stands for
    gets the lowest of its head.
    """
    rows = answer.rows["mean"][head_rows(answer, heads), 0].double().numpy()
    values = np.concatenate(sentence_means(answer, spans, rows, SHARE_POWER), axis=1)
    lowest = np.where(np.isfinite(values), values, np.inf).min(axis=1, keepdims=True)
    return np.where(np.isfinite(values), values, np.where(np.isfinite(lowest), lowest, 0.0))


def document(answer: AttentionMap, spans: Spans, heads: Sequence[Head]) -> Floats:
    """Late interaction of the query with the whole document of each sentence, (H, S): what reranks it, kept apart."""
    scores = best_token_scores(answer, heads, length_power=0.0).double().numpy()
    return np.repeat(scores, [len(of) for of in spans], axis=1)


STATISTICS: Mapping[str, Callable[[AttentionMap, Spans, Sequence[Head]], Floats]] = {
    "share": share,
    "document": document,
}
"""What a sentence probe may weigh: (map, sentences of each document, heads) to values (H, S), greater is better."""

FOLLOWING = (*BRIDGES, "dense")
"""What it may weigh beside them, against the sum of these."""

EMBEDDED = 0.5
"""The share of the text whose sentences are embedded: those that attention finds best."""


def following(
    first: Floats,
    wording: Wording,
    sizes: Sequence[int],
    cosines: Callable[[Sequence[int]], Floats],
    names: Iterable[str] = FOLLOWING,
) -> dict[str, Floats]:
    """Those of `FOLLOWING` that are among ``names``, given first scores (S,) of all sentences: values (S,).

    "dense" is the cosine of query and sentence, z-scored. ``cosines`` gives it for the sentences at some positions; it
    is asked for the best ones, down to `EMBEDDED` of the text by ``sizes`` (characters), and the others count as the
    lowest of these: embedding all of them would cost more than it is worth.
    """
    wanted = set(names)
    found = dict(bridged(first, wording, [name for name in BRIDGES if name in wanted]))
    if "dense" in wanted and len(first):
        order = np.argsort(-first, kind="stable")
        lengths = np.array(sizes, dtype=np.float64)[order]
        best = np.sort(order[: max(1, int((lengths.cumsum() <= EMBEDDED * lengths.sum()).sum()))])
        known = cosines(best.tolist())
        values = np.full(len(first), known.min())
        values[best] = known
        found["dense"] = standard_scores(values)
    return found


@register("compressor", "sentinel")
@dataclass(frozen=True, eq=False)
class SentinelCompressor(SentenceCompressor):
    """Sentences by the probability, learned from attention, that an answer rests on them: the default compressor.

    Args:
        engine: reads the attention where `compress` is not given a shared pass.
        embedder: the embedding model, for a probe that weighs "dense"; over `rag.kept_embeddings.KeptEmbeddings` (a
            pipeline's is) no sentence is embedded twice.
        probe: the file that ``rag probe train --task sentence`` wrote; None for the one that ships with the model.

    The other options are those of `SentenceCompressor`; a ``threshold`` is a probability. After Sentinel (Zhang et al.,
    arXiv 2505.23277), which weighs the last row of every head: here a few heads, every row of the query, the
    attention to the sentence and that to its document (`STATISTICS`), z-scored over the sentences of the request;
    what leads on from the sentences that these find (`rag.bridges`); and the cosine of the best ones' embeddings.

    Raises:
        ConfigError: no probe is given and none ships for this model.
        ArtefactError: a file that is no sentence probe, or was made for another model, wording or layout.
    """

    engine: Engine = field(repr=False)
    embedder: TextEmbedder = field(repr=False)
    _: KW_ONLY
    probe: Path | None = None
    objective: Objective = "best-first"

    @cached_property
    def _weights(self) -> Probe:
        return Probe.choose(self.engine, "sentence", self.probe, frozenset(STATISTICS), frozenset(FOLLOWING))

    @property
    def spec(self) -> AttentionSpec:
        """What this stage reads, so that one pass can serve all stages."""
        return AttentionSpec(self._weights.read_heads(), ("mean", "all"))

    def score(
        self, query: Query, documents: Sequence[Document], spans: Spans, attender: Attender | None
    ) -> list[Floats]:
        """Probability that the sentence is needed; comparable within a request, and roughly between requests."""
        answer = (attender or self.engine).attend(query, documents, self.spec)
        weights = self._weights
        odds = attention_part(
            weights.heads, sum(map(len, spans)), lambda name, heads: STATISTICS[name](answer, spans, heads)
        )
        if weights.signals:
            pieces = sentence_texts(documents, spans)
            more = following(
                odds,
                Wording.of(query, documents, spans, self.language),
                [len(piece) for piece in pieces],
                lambda places: best_cosines(self.embedder, query.full_text, [pieces[place] for place in places]),
                weights.signals,
            )
            odds = odds + sum(weights.signals[name] * of for name, of in more.items())
        odds = odds + weights.bias
        probability = 1 / (1 + np.exp(-odds))
        return np.split(probability, np.cumsum([len(of) for of in spans])[:-1])
