"""Exact dense retrieval over a corpus in memory: cosine of query and document embeddings, best window counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag.checks import full_text
from rag.embedding import Matrix, TextEmbedder
from rag.errors import ModelOutputError
from rag.registry import register
from rag.retrievers.corpus import CorpusRetriever, Hit
from rag.retrievers.selection import top_k
from rag.types import Document, Query

# From 20 queries on, faiss scores by BLAS blocks, whose last digits depend on a row's place in its block. Below that,
# every inner product is computed alike: a query scores the same alone or in a batch, and copies of a document tie.
_QUERIES_AT_ONCE = 16

_EMPTY_SCORE = -1.0


@register("retriever", "dense")
class Dense(CorpusRetriever):
    """Cosine similarity of embeddings, exact (faiss ``IndexFlatIP``).

    A document longer than the model's window is read in overlapping windows and scores as its best one; a query
    that long is the normalised mean of its windows (`rag.models.embedder.Embedder.encode`). Title and
    text are embedded together. Documents without text are not embedded: they score -1, the lowest cosine.
    ``trace`` holds the score under ``"dense"``.

    Args:
        embedder: the embedding model; over `rag.kept_embeddings.KeptEmbeddings` (a pipeline's is) no document is
            embedded twice.

    Raises (from `index` and `retrieve`):
        ModelOutputError: the model gave a value that is not a finite number.
    """

    name = "dense"
    no_evidence = _EMPTY_SCORE

    def __init__(self, embedder: TextEmbedder) -> None:
        self.embedder = embedder
        self._index: Any = None
        self._owners: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._empty: tuple[int, ...] = ()

    def _build(self, documents: tuple[Document, ...]) -> None:
        self._index = None
        self._empty = tuple(i for i, document in enumerate(documents) if document.is_empty)
        texts = {i: full_text(document) for i, document in enumerate(documents) if not document.is_empty}
        if not texts:
            return
        import faiss

        matrix, owners = self.embedder.encode_windows(list(texts.values()))
        self._owners = np.fromiter(texts, dtype=np.intp)[owners]
        matrix = _finite(matrix)
        self._index = faiss.IndexFlatIP(matrix.shape[1])
        self._index.add(matrix)

    def _search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        if self._index is None:
            return [self._hits({}, k) for _ in queries]
        vectors = _finite(self.embedder.encode([query.full_text for query in queries]))
        return [
            self._hits(best, k)
            for start in range(0, len(queries), _QUERIES_AT_ONCE)
            for best in self._best(vectors[start : start + _QUERIES_AT_ONCE], k)
        ]

    def _best(self, vectors: Matrix, k: int) -> list[dict[int, float]]:
        """Per query the scores of the ``k`` best documents and of all that tie with the last of them.

        Asks for more windows until nothing unseen can be among them: several windows may belong to one document.
        """
        wanted = min(2 * k, self._index.ntotal)
        while True:
            scores, rows = self._index.search(vectors, wanted)
            found = [self._by_document(*query) for query in zip(scores, rows, strict=True)]
            if wanted == self._index.ntotal or all(
                len(best) >= k and sorted(best.values(), reverse=True)[k - 1] > float(last)
                for best, last in zip(found, scores[:, -1], strict=True)
            ):
                return found
            wanted = min(2 * wanted, self._index.ntotal)

    def _by_document(self, scores: Matrix, rows: NDArray[np.int64]) -> dict[int, float]:
        best: dict[int, float] = {}
        for score, owner in zip(scores.tolist(), self._owners[rows].tolist(), strict=True):
            best.setdefault(owner, score)  # faiss gives the rows best first
        return best

    def _hits(self, best: dict[int, float], k: int) -> list[Hit]:
        positions = np.array(sorted(best), dtype=np.intp)
        scores = [best[i] for i in positions.tolist()]
        chosen = top_k(np.array(scores), k)
        hits = [Hit(int(positions[i]), scores[i], {self.name: scores[i]}) for i in chosen]
        empty = self._empty[: k - len(hits)]
        return hits + [Hit(i, _EMPTY_SCORE, {self.name: _EMPTY_SCORE}) for i in empty]


def _finite(matrix: Matrix) -> Matrix:
    if not np.isfinite(matrix).all():
        raise ModelOutputError("the embedding model gave a value that is not a finite number")
    return np.ascontiguousarray(matrix, dtype=np.float32)
