"""From sentence scores to kept sentences under a budget: the part that every sentence compressor shares."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rag.compressors.select import ELLIPSIS, NEIGHBOUR, OPENING, select
from rag.errors import BudgetError, ConfigError
from rag.types import Span, join_spans

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Objective = Literal["mass", "sum", "best-first"]
"""What the kept sentences maximise together.

``mass``: score times length, summed. With a score per token that is the relevance (attention) that is kept.
``sum``: the scores' sum. With a score that is the probability of being needed, the expected number of
needed sentences kept; short sentences are favoured.
``best-first``: the best sentence, then the next best that still fits, and so on (the optimum where one better
sentence outweighs any number of lesser ones).
"""

# Strengths lie in [_FLOOR, 1 + _FLOOR]: even the weakest sentence is worth keeping where there is room for it.
_FLOOR = 1e-3
_TIGHTENINGS = 8


@dataclass(frozen=True, slots=True)
class Passages:
    """Texts with their sentences, and what it costs to keep some of them.

    Sentences are numbered through all texts. ``spans`` hold no white space at their ends. ``size`` gives
    the size of each text in the budget's unit.
    """

    texts: tuple[str, ...]
    spans: tuple[tuple[Span, ...], ...]
    ellipsis: str
    size: Callable[[Sequence[str]], Sequence[int]]

    def opens(self) -> NDArray[np.bool_]:
        """Whether each sentence is the first of its text."""
        return np.array([position == 0 for spans in self.spans for position in range(len(spans))], dtype=bool)

    def costs(self) -> Ints:
        """Size of each sentence after nothing, after its neighbour and after an ellipsis: (n, 3)."""
        alone, joined, apart = [], [], []
        for text, spans in zip(self.texts, self.spans, strict=True):
            for position, (start, end) in enumerate(spans):
                before = spans[position - 1].end if position else start
                alone.append(text[start:end])
                joined.append(text[before:end])
                apart.append(self.ellipsis + text[start:end])
        return np.array(self.size([*alone, *joined, *apart]), dtype=np.int64).reshape(3, -1).T

    def kept_spans(self, kept: Sequence[int]) -> list[tuple[Span, ...]]:
        """The spans of the sentences ``kept``, per text."""
        wanted, number = set(kept), 0
        chosen: list[tuple[Span, ...]] = []
        for spans in self.spans:
            chosen.append(tuple(span for i, span in enumerate(spans, start=number) if i in wanted))
            number += len(spans)
        return chosen

    def measure(self, kept: Sequence[int]) -> int:
        """The true size of what is kept: of the joined texts, not of their parts."""
        joined = [
            join_spans(text, spans, self.ellipsis)
            for text, spans in zip(self.texts, self.kept_spans(kept), strict=True)
            if spans
        ]
        return sum(self.size(joined)) if joined else 0


def strengths(scores: Floats, weight: float = 0.0, documents: Ints | None = None) -> Floats:
    """Scores brought to (0, 1], ``-inf`` for what may not be kept: what is not finite.

    The least finite score goes to 0.001, the greatest to 1.001. A ``weight`` above 0 mixes in the rank of
    the sentence's document (``documents``: 0 for the first), which falls from 1 for the first document
    towards 0: (1 - weight) * strength + weight * (1 - rank / number of documents).
    """
    usable = np.isfinite(scores)
    mixed = np.full(len(scores), -np.inf)
    if not usable.any():
        return mixed
    low, high = scores[usable].min(), scores[usable].max()
    mixed[usable] = (scores[usable] - low) / (high - low) if high > low else 1.0
    if weight and documents is not None:
        mixed = (1 - weight) * mixed + weight * (1 - documents / (documents.max() + 1))
    mixed[usable] += _FLOOR
    return mixed


def keep(
    passages: Passages,
    strength: Floats,
    limit: int,
    unit: str,
    *,
    objective: Objective = "mass",
    min_keep: int = 1,
    excluded: NDArray[np.bool_] | None = None,
    required: NDArray[np.bool_] | None = None,
) -> tuple[int, ...]:
    """The sentences to keep: as much ``objective`` as fits, never more than ``limit`` in joined text.

    Args:
        passages: the texts and their sentences (n in all).
        strength: one number per sentence (n,), see `strengths`; ``-inf`` where it may not be kept.
        limit: the most that the kept text may measure, joined as it will be read.
        unit: what ``limit`` counts, for messages.
        objective: see `Objective`.
        min_keep: 1 keeps at least one sentence, the strongest that fits, also where all are excluded; 0 may keep none.
        excluded: which sentences (n,) are not kept for any other reason; None for none.
        required: which sentences (n,) are kept whatever they score, excluded or not; None for none.

    Returns:
        Sentence numbers, ascending.

    Raises:
        BudgetError: the required sentences are above the limit, or one must be kept and the limit is below the
            shortest; says both numbers.
        ConfigError: an unknown objective.
    """
    if objective not in get_args(Objective):
        raise ConfigError(f"objective {objective!r}; accepted: {', '.join(get_args(Objective))}")
    if not len(strength):
        return ()
    must = np.zeros(len(strength), dtype=bool) if required is None else required
    forced = tuple(np.flatnonzero(must).tolist())
    needed = passages.measure(forced)
    if needed > limit:
        raise BudgetError(
            f"budget allows {limit} {unit} and the {len(forced)} protected sentences have {needed}: "
            f"accepted is a budget of {needed} or more"
        )
    strongest = strength
    if excluded is not None:
        strength = np.where(excluded, -np.inf, strength)
    strength = np.where(must, np.nan_to_num(strength, neginf=_FLOOR), strength)
    wanted = tuple(np.flatnonzero(np.isfinite(strength)).tolist())
    if wanted and passages.measure(wanted) <= limit:
        return wanted
    costs, opens = passages.costs(), passages.opens()
    shortest = int(costs[:, 0].min())
    if min_keep and shortest > limit:
        raise BudgetError(
            f"budget allows {limit} {unit} and the shortest of {len(strength)} sentences has {shortest}: "
            f"accepted is a budget of {shortest} or more"
        )
    allowed = limit
    kept: tuple[int, ...] = ()
    # Tokens of joined text can differ from the sum of the parts by a few: the limit is tightened by the excess.
    for _ in range(_TIGHTENINGS):
        kept = _best(costs, opens, strength, must, allowed, objective)
        excess = passages.measure(kept) - limit
        if excess <= 0:
            break
        allowed = max(0, allowed - excess)
    if not set(forced) <= set(kept):  # the sum of the parts, or a choice that is not exact, left one of them out
        kept = forced
    while passages.measure(kept) > limit:
        weakest = min((item for item in kept if not must[item]), key=lambda item: strength[item])
        kept = tuple(item for item in kept if item != weakest)
    return kept or ((_single(costs[:, 0], strongest, limit),) if min_keep else ())


def _best(
    costs: Ints,
    opens: NDArray[np.bool_],
    strength: Floats,
    must: NDArray[np.bool_],
    limit: int,
    objective: Objective,
) -> tuple[int, ...]:
    if objective == "best-first":
        return _best_first(costs, opens, np.where(must, strength + 2 + strength.max(), strength), limit)
    # A sentence of size 0 still counts for its score.
    weights = np.maximum(costs[:, 0], 1) if objective == "mass" else 1
    utilities = strength * weights
    if must.any():  # one of them outweighs all that others could add
        utilities = utilities + np.where(must, 1 + utilities[np.isfinite(utilities)].sum(), 0.0)
    return select(costs, utilities, limit, opens=opens)


def _best_first(costs: Ints, opens: NDArray[np.bool_], strength: Floats, limit: int) -> tuple[int, ...]:
    document, table = np.cumsum(opens).tolist(), costs.tolist()

    def cost(item: int, before: int | None) -> int:
        """What ``item`` costs with ``before`` as the last one that is kept in front of it."""
        if before is None or document[before] != document[item]:
            return int(table[item][OPENING])
        return int(table[item][NEIGHBOUR if before == item - 1 else ELLIPSIS])

    chosen: list[int] = []
    cheapest, spent = int(costs.min()), 0
    for item in np.argsort(-strength, kind="stable").tolist():
        if not np.isfinite(strength[item]) or limit - spent < cheapest:
            break
        at = bisect(chosen, item)
        before = chosen[at - 1] if at else None
        more = cost(item, before)
        if at < len(chosen):  # the one behind it now follows it
            more += cost(chosen[at], item) - cost(chosen[at], before)
        if spent + more <= limit:
            chosen.insert(at, item)
            spent += more
    return tuple(chosen)


def _single(sizes: Ints, strength: Floats, limit: int) -> int:
    """The strongest sentence that fits, the first of equals."""
    return int(np.argmax(np.where(sizes <= limit, np.nan_to_num(strength, neginf=-1.0), -np.inf)))
