"""Folds of questions, the same in every run, for training and for judging: what was learned from is not judged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from rag.errors import InputError, shown

T = TypeVar("T")


def fold_of(id: str, n: int) -> int:
    """The fold, from 0 to ``n`` - 1, that the question of this id is in.

    It depends on the id alone: not on the file, its order, the machine or the run. Train on the questions whose fold is
    not ``i``, judge on those whose fold is.

    Raises:
        InputError: ``n`` below 1.
    """
    if n < 1:
        raise InputError(f"the number of folds must be at least 1, given {n}")
    digest = hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % n


class Fold(NamedTuple):
    """One of ``of`` folds, written ``number/of`` with numbers from 0: ``0/5`` to ``4/5``."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Fold:
        """Read ``i/n``.

        Raises:
            InputError: not of that form, or ``i`` outside 0 to ``n`` - 1.
        """
        number, _, of = text.partition("/")
        if number.isdecimal() and of.isdecimal() and int(number) < int(of):
            return cls(int(number), int(of))
        raise InputError(f"fold {shown(text)}; accepted: i/n with i from 0 to n - 1, such as 0/5")

    def holds(self, id: str) -> bool:
        """Whether the question of this id is in the fold."""
        return fold_of(id, self.of) == self.number

    def split(self, items: Iterable[T], id_of: Callable[[T], str]) -> tuple[list[T], list[T]]:
        """The items inside the fold (to judge on) and those outside (to learn from), in their order."""
        inside: list[T] = []
        outside: list[T] = []
        for item in items:
            (inside if self.holds(id_of(item)) else outside).append(item)
        return inside, outside
