"""Orders that follow from ranks or positions alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

from rag.attention.types import Attender
from rag.compressors.ordering.permutations import ascending, best_at_both_ends
from rag.errors import InputError, shown
from rag.registry import register
from rag.types import CORPUS_INDEX, Query, ScoredDocument


def by_rank(documents: Sequence[ScoredDocument]) -> list[int]:
    """Positions by rank, best first."""
    return ascending([item.rank for item in documents])


@register("ordering", "ranked")
class Ranked:
    """Best first."""

    def order(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """Documents by rank."""
        del query, attender
        return [documents[i] for i in by_rank(documents)]


@register("ordering", "reversed")
class Reversed:
    """Best last, next to the question that follows the context."""

    def order(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """Documents by rank, the first at the end."""
        del query, attender
        return [documents[i] for i in reversed(by_rank(documents))]


@register("ordering", "interleave")
class Interleave:
    """Best at both ends, weakest in the middle (Liu et al., "Lost in the Middle", TACL 2024)."""

    def order(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """Ranks 1, 3, 5, ... 6, 4, 2."""
        del query, attender
        return [documents[i] for i in best_at_both_ends(by_rank(documents))]


@register("ordering", "document")
class DocumentOrder:
    """The order of the corpus: by ``trace["index"]``, which a pipeline sets; without it as they came in."""

    def order(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """Documents by their place in the corpus.

        Raises:
            InputError: some documents have an index and others do not.
        """
        del query, attender
        places = [item.trace.get(CORPUS_INDEX) for item in documents]
        missing = [item.document.id for item, place in zip(documents, places, strict=True) if place is None]
        if len(missing) == len(documents):
            return list(documents)
        if missing:
            raise InputError(
                f"corpus order needs trace['index'] on all documents or on none; {len(missing)} of {len(documents)} "
                f"lack it, the first is {shown(missing[0])}"
            )
        return [documents[i] for i in ascending([float(place) for place in places if place is not None])]


@register("ordering", "shuffle")
class Shuffle:
    """At random: the control that every other order has to beat.

    Args:
        seed: another seed, another order. The same query, documents and seed give the same order on every
            machine, in whatever order the documents came.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self._seed = seed

    def order(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """Documents in an order drawn from the seed and the query's text."""
        del attender
        shuffled = sorted(documents, key=lambda item: item.document.id)
        random.Random(f"{self._seed} {query.text}").shuffle(shuffled)
        return shuffled
