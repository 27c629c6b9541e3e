"""Several retrievers over the same corpus, their rankings made into one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from rag import registry
from rag.embedding import TextEmbedder
from rag.errors import ConfigError
from rag.retrievers import fusion
from rag.retrievers.corpus import CorpusRetriever, Hit
from rag.stages import Retriever
from rag.types import Document, Query, ScoredDocument

Method = Literal["rrf", "zscore", "minmax", "interleave"]
Ranking = list[tuple[int, float]]
"""Positions in the corpus and a member's scores, best first."""

_DEFAULT_MEMBERS: Mapping[str, Mapping[str, Any]] = {"bm25": {}, "dense": {}}


def _rrf(rankings: Sequence[Ranking], k0: float) -> dict[int, float]:
    return fusion.reciprocal_ranks([[position for position, _ in ranking] for ranking in rankings], k0)


def _zscore(rankings: Sequence[Ranking], _: float) -> dict[int, float]:
    return fusion.z_sum([dict(ranking) for ranking in rankings])


def _minmax(rankings: Sequence[Ranking], _: float) -> dict[int, float]:
    return fusion.min_max_sum([dict(ranking) for ranking in rankings])


def _interleave(rankings: Sequence[Ranking], _: float) -> dict[int, float]:
    order = fusion.interleave([[position for position, _ in ranking] for ranking in rankings])
    return {position: 1 / rank for rank, position in enumerate(order, start=1)}


_METHODS: dict[Method, Callable[[Sequence[Ranking], float], dict[int, float]]] = {
    "rrf": _rrf,
    "zscore": _zscore,
    "minmax": _minmax,
    "interleave": _interleave,
}


@registry.register("retriever", "fused")
class Fused(CorpusRetriever):
    """Several retrievers fused: sum of z-scores, reciprocal ranks (Cormack, Clarke and Büttcher 2009), or another way.

    The sum of z-scores is the default: it ranks better than reciprocal ranks on each of the three collections that
    are there to choose on (docs/results.md), since it keeps how far apart the scores are.

    A document's ``trace`` keeps what each member said of it: its score under the member's name and its rank under
    ``"<name>_rank"``; both are absent where the member did not have it among its best ``depth``. A document in which a
    member found nothing at all (BM25 score 0) gets nothing from that member, whatever its place in the list.

    Args:
        embedder: the embedding model, given to the members that want one.
        members: retriever name to its options, for example ``{"bm25": {"k1": 1.2}, "dense": {}}``.
        depth: how many documents are asked of each member (more where ``k`` is larger).
        k0: the constant of reciprocal rank fusion.
        method: see `rag.retrievers.fusion`; "interleave" scores 1 / rank.

    Raises:
        ConfigError: no member, an unknown member or option, ``depth`` below 1 or ``k0`` negative.
    """

    name = "fused"

    def __init__(
        self,
        embedder: TextEmbedder | None = None,
        members: dict[str, dict[str, Any]] | None = None,
        depth: int = 100,
        k0: float = 60,
        method: Method = "zscore",
    ) -> None:
        chosen = _DEFAULT_MEMBERS if members is None else members
        resources: dict[str, Callable[[], Any]] = {} if embedder is None else {"embedder": lambda: embedder}
        self._set(
            {name: registry.build("retriever", name, options, resources) for name, options in chosen.items()},
            depth,
            k0,
            method,
        )

    @classmethod
    def of(cls, members: Mapping[str, Retriever], depth: int = 100, k0: float = 60, method: Method = "zscore") -> Self:
        """Fuse retrievers that exist already; the names are the keys of their scores in the trace."""
        fused = cls.__new__(cls)
        fused._set(dict(members), depth, k0, method)
        return fused

    def _set(self, members: dict[str, Retriever], depth: int, k0: float, method: Method) -> None:
        if not members:
            raise ConfigError("a fused retriever needs at least one member, given none")
        if depth < 1:
            raise ConfigError(f"depth must be at least 1, given {depth}")
        if not k0 >= 0:
            raise ConfigError(f"k0 must be at least 0, given {k0}")
        if method not in _METHODS:
            raise ConfigError(f"unknown fusion method {method!r}; accepted: {', '.join(_METHODS)}")
        self.members = members
        self.depth = depth
        self.k0 = k0
        self.method: Method = method
        self._positions: dict[str, int] = {}

    def _build(self, documents: tuple[Document, ...]) -> None:
        self.members = {name: member.index(documents) for name, member in self.members.items()}
        self._positions = {document.id: position for position, document in enumerate(documents)}

    def _search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        depth = max(self.depth, k)
        found = [member.retrieve(queries, depth) for member in self.members.values()]
        return [self._fuse(lists)[:k] for lists in zip(*found, strict=True)]

    def _fuse(self, lists: Sequence[list[ScoredDocument]]) -> list[Hit]:
        traces: dict[int, dict[str, Any]] = {}
        rankings: list[Ranking] = []
        for (name, member), documents in zip(self.members.items(), lists, strict=True):
            floor = getattr(member, "no_evidence", float("-inf"))
            ranking: Ranking = []
            for found in documents:
                position = self._positions[found.document.id]
                traces.setdefault(position, {}).update({name: found.score, f"{name}_rank": found.rank})
                if found.score > floor:
                    ranking.append((position, found.score))
            rankings.append(ranking)
        scores = _METHODS[self.method](rankings, self.k0)
        lowest = min(0.0, min(scores.values(), default=0.0))
        hits = [Hit(position, scores.get(position, lowest), trace) for position, trace in traces.items()]
        documents_ = self.documents
        return sorted(hits, key=lambda hit: (-hit.score, documents_[hit.position].is_empty, hit.position))
