"""AttnRank: the most relevant documents go where the reader model looks most."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rag.attention.types import Attender, Engine
from rag.compressors.ordering.fixed import by_rank
from rag.compressors.ordering.permutations import into_slots
from rag.compressors.ordering.slot_profile import choose_profile
from rag.registry import register
from rag.types import Query, ScoredDocument


@register("ordering", "attnrank")
class AttnRank:
    """The k-th most relevant document in the k-th most attended slot (Yi et al., arXiv 2508.05128).

    Reads no attention: it needs the ranks it is given and a measured `SlotProfile` of the reader model
    (``rag order profile``). A number of documents that was not measured is interpolated
    (`SlotProfile.slots`). Whether answers get better, and not the attention alone, is for
    ``rag order effects`` to show.

    Args:
        engine: says which model and prompt wording are in use.
        profile: file of a profile; None for the one that ships for the model.
        reader: fingerprint of the reader model, where that is not the engine's (a profile's file says it).

    Raises:
        ArtefactError: a file that is no profile, or one of another model or wording.
        ConfigError: no profile is given and none ships.
    """

    def __init__(self, engine: Engine, *, profile: Path | None = None, reader: str | None = None) -> None:
        info = engine.info()
        self._profile = choose_profile(profile, reader or info["fingerprint"], info["template"])

    def order(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """Documents by rank, put into slots by attention."""
        del query, attender
        if not documents:
            return []
        slots = self._profile.slots(len(documents))
        return [documents[i] for i in into_slots(by_rank(documents), slots.tolist())]
