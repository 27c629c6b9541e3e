"""How much text may be kept: one value type used by every compressor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from rag.errors import BudgetError, shown

Unit = Literal["tokens", "characters", "ratio"]


@dataclass(frozen=True, slots=True)
class Budget:
    """An upper bound on kept text, never exceeded.

    ``amount`` counts tokens (of the attention model's tokenizer) or characters, or is the share of
    the source's tokens to keep (0 < ratio <= 1).

    Raises:
        BudgetError: the amount is not a number, not positive, not whole (tokens, characters) or a ratio above 1.
    """

    amount: float
    unit: Unit = "tokens"

    def __post_init__(self) -> None:
        if self.unit not in get_args(Unit):
            raise BudgetError(f"budget unit {shown(self.unit)}; accepted: {', '.join(get_args(Unit))}")
        number = isinstance(self.amount, int | float) and not isinstance(self.amount, bool)
        if not number or not 0 < self.amount < float("inf"):
            raise BudgetError(f"budget must be a finite number above 0, given {shown(self.amount)} {self.unit}")
        if self.unit == "ratio":
            if self.amount > 1:
                raise BudgetError(f"budget ratio must be in (0, 1], given {shown(self.amount)}")
        elif self.amount != int(self.amount):
            raise BudgetError(f"budget in {self.unit} must be a whole number, given {shown(self.amount)}")

    def limit(self, total: int) -> int:
        """The bound in whole units for a source of ``total`` tokens (or characters)."""
        if self.unit != "ratio":
            return int(self.amount)
        # 0.29 * 100 is a little below 29 in binary.
        return min(total, math.floor(self.amount * total + 1e-9))
