"""Relevance feedback: documents that the user marked pull those like them up."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np

from rag.checks import full_text
from rag.embedding import Matrix, TextEmbedder
from rag.errors import ConfigError, InputError, ModelOutputError, shown
from rag.retrievers.fusion import reciprocal_ranks
from rag.types import Document, Query, ScoredDocument, check_unique_ids, ranked

Examples = Literal["both", "query", "feedback"]
"""What a document is compared with: query and documents marked relevant, or one of the two."""

Pool = Literal["sum", "max"]


def knn_feedback(
    embedder: TextEmbedder,
    query: Query,
    documents: Sequence[ScoredDocument],
    relevant: Collection[str],
    *,
    not_relevant: Collection[str] = (),
    examples: Examples = "both",
    pool: Pool = "sum",
    k0: float | None = 60,
    exclude_marked: bool = False,
) -> list[ScoredDocument]:
    """Rank ``documents`` by their similarity to the query and to those that the user marked relevant.

    A document's score is the sum (or maximum) of its cosines with the examples, fused with the order that it came in by
    reciprocal ranks (Baumgaertner et al., "Incorporating Relevance Feedback for Information-Seeking Retrieval using
    Few-Shot Document Re-Ranking", EMNLP 2022: the kNN method). Documents marked not relevant are no examples, as
    published; they matter for ``exclude_marked`` alone. A long document is compared by its best window; as an example
    it is the mean of its windows. Documents without text come last.

    Each trace gets the similarity under ``"feedback"`` and its rank under ``"feedback_rank"``. Where nothing is
    marked relevant, the query is the only example. To judge the ranking, leave the marked documents out: the user has
    given their answer already.

    Example::

        (found,) = retriever.retrieve([query], 100)
        better = knn_feedback(embedder, query, found, relevant=["doc-7"], exclude_marked=True)

    Args:
        embedder: the embedding model.
        query: the question, with its history.
        documents: candidates, best first; marked documents are among them.
        relevant, not_relevant: ids of the marked documents.
        examples: "both", "query" or "feedback" (the marked documents alone).
        pool: "sum" or "max" over the examples.
        k0: the constant of reciprocal rank fusion; None ranks by similarity alone.
        exclude_marked: leave out the documents that were marked, relevant or not.

    Raises:
        InputError: marked ids that no document has (all are named), an id marked both ways, or
            "feedback" without a document marked relevant that has text.
        DuplicateIdsError: two candidates carry the same id.
        ConfigError: ``examples``, ``pool`` or ``k0`` is not one of the accepted values.
        ModelOutputError: the embedding model gave a value that is not a finite number.
    """
    _require_options(examples, pool, k0)
    _require_marks([item.document for item in documents], relevant, not_relevant)
    readable = [item for item in documents if not item.document.is_empty]
    if not readable:
        return _renumbered(documents, relevant, not_relevant, exclude_marked)
    texts = [full_text(item.document) for item in readable]
    marked = [text for item, text in zip(readable, texts, strict=True) if item.document.id in relevant]
    if examples == "feedback" and not marked:
        raise InputError("examples 'feedback' needs a document with text that is marked relevant, given none")
    compared = {"both": [query.full_text, *marked], "query": [query.full_text], "feedback": marked}[examples]
    similar = _similarity(embedder, texts, compared, pool)
    by_similarity = sorted(range(len(readable)), key=lambda place: -similar[place])
    rank = {place: number for number, place in enumerate(by_similarity, start=1)}
    scores: Sequence[float] = similar
    if k0 is not None:
        fused = reciprocal_ranks([range(len(readable)), by_similarity], k0)
        scores = [fused[place] for place in range(len(readable))]
    traces = [
        {**item.trace, "feedback": similar[place], "feedback_rank": rank[place]} for place, item in enumerate(readable)
    ]
    answer = ranked([item.document for item in readable], scores, traces)
    floor = answer[-1].score - 1
    rest = [ScoredDocument(item.document, floor, 0, item.trace) for item in documents if item.document.is_empty]
    return _renumbered([*answer, *rest], relevant, not_relevant, exclude_marked)


def _similarity(embedder: TextEmbedder, texts: Sequence[str], examples: Sequence[str], pool: Pool) -> list[float]:
    """Sum or maximum over the examples of each text's cosine with it, the best window of the text counting."""
    windows, owners = embedder.encode_windows(texts)
    cosines = _finite(windows) @ _finite(embedder.encode(examples)).T
    starts = np.searchsorted(owners, np.arange(len(texts)))
    best = np.maximum.reduceat(cosines, starts, axis=0).astype(np.float64)
    # Equal texts must tie, and the last digits of a matrix product depend on the row's place in it.
    pooled: list[float] = (best.sum(1) if pool == "sum" else best.max(1)).round(6).tolist()
    return pooled


def _finite(matrix: Matrix) -> Matrix:
    if not np.isfinite(matrix).all():
        raise ModelOutputError("the embedding model gave a value that is not a finite number")
    return matrix


def _renumbered(
    documents: Sequence[ScoredDocument], relevant: Collection[str], not_relevant: Collection[str], exclude: bool
) -> list[ScoredDocument]:
    left = {*relevant, *not_relevant} if exclude else frozenset[str]()
    kept = [item for item in documents if item.document.id not in left]
    return [ScoredDocument(item.document, item.score, rank, item.trace) for rank, item in enumerate(kept, start=1)]


def _require_options(examples: str, pool: str, k0: float | None) -> None:
    for name, given, accepted in (
        ("examples", examples, ("both", "query", "feedback")),
        ("pool", pool, ("sum", "max")),
    ):
        if given not in accepted:
            raise ConfigError(f"{name} {shown(given)}; accepted: {', '.join(accepted)}")
    if k0 is not None and not 0 <= k0 < float("inf"):
        raise ConfigError(f"k0 must be a finite number of at least 0, or None for similarity alone; given {k0}")


def _require_marks(documents: Sequence[Document], relevant: Collection[str], not_relevant: Collection[str]) -> None:
    for name, given in (("relevant", relevant), ("not_relevant", not_relevant)):
        if isinstance(given, str):
            raise InputError(f"{name} must be a collection of document ids, given one string ({shown(given)})")
    check_unique_ids(documents)
    ids = {document.id for document in documents}
    unknown = [mark for mark in (*relevant, *not_relevant) if mark not in ids]
    if unknown:
        raise InputError(f"marked documents that are not among the {len(ids)} candidates: {_listed(unknown)}")
    if twice := [mark for mark in relevant if mark in not_relevant]:
        raise InputError(f"documents marked both relevant and not relevant: {_listed(twice)}")


def _listed(ids: Sequence[str], most: int = 10) -> str:
    names = ", ".join(map(shown, ids[:most]))
    return f"{names} and {len(ids) - most} more" if len(ids) > most else names
