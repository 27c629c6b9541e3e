"""How much attention a reader model gives to each slot of its context, kept as JSON.

The attention basin (Yi et al., "Attention Basin", arXiv 2508.05128): the first and the last documents of a list
are looked at more than those in the middle, whatever they say. A profile belongs to one model and one prompt
wording and holds one curve per number of documents; stages refuse a profile made for another.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pydantic
from numpy.typing import NDArray

from rag.artefacts import Artefact, require_same
from rag.errors import ConfigError, InputError


class Curve(pydantic.BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Relative attention per slot, first slot first; 1 is what an average slot of the same prompt gets.

    ``error`` is the standard error of each mean over ``prompts`` prompts.
    """

    prompts: pydantic.PositiveInt
    attention: tuple[pydantic.NonNegativeFloat, ...]
    error: tuple[pydantic.NonNegativeFloat, ...]


class SlotProfile(Artefact, frozen=True):
    """Curves of one model, by number of documents.

    ``fingerprint`` identifies the model (`rag.models.fingerprint`), ``template`` the prompt wording
    (`Template.digest`); ``layers`` are the first and the last layer (both included, from 0) whose heads were
    averaged; ``data`` says what the prompts were made from.
    """

    refusal: ClassVar[str] = "is not a slot profile"

    format: Literal["rag.slots/1"] = "rag.slots/1"
    model: str
    fingerprint: str
    template: str
    layers: tuple[pydantic.NonNegativeInt, pydantic.NonNegativeInt]
    data: str
    curves: dict[pydantic.PositiveInt, Curve]

    @pydantic.model_validator(mode="after")
    def _fits(self) -> SlotProfile:
        if not self.curves:
            raise ValueError("a profile holds at least one curve")
        for count, curve in self.curves.items():
            if not len(curve.attention) == len(curve.error) == count:
                raise ValueError(f"the curve of {count} documents has {len(curve.attention)} slots")
        return self

    def check(self, fingerprint: str, template: str) -> SlotProfile:
        """Return the profile if it was measured on this model with this wording.

        Raises:
            ArtefactError: it was not; says what it was measured on and what is in use.
        """
        require_same(
            f"slot profile of {self.model!r}",
            ("model", self.fingerprint, fingerprint),
            ("prompt template", self.template, template),
        )
        return self

    def slots(self, count: int) -> NDArray[np.float64]:
        """Relative attention of each of ``count`` slots, their mean 1: (count,).

        A count that was not measured is interpolated (a choice of this project, not of the paper): the curves
        of the nearest measured counts below and above are stretched linearly to ``count`` slots, first on first
        and last on last, and mixed in proportion to how near ``count`` is to each. Outside the measured counts
        the nearest curve alone is stretched.

        Raises:
            InputError: ``count`` is below 1.
        """
        if count < 1:
            raise InputError(f"a profile has 1 slot or more, asked for {count}")
        measured = sorted(self.curves)
        below = max((n for n in measured if n <= count), default=measured[0])
        above = min((n for n in measured if n >= count), default=measured[-1])
        share = 0.0 if above == below else (count - below) / (above - below)
        mixed = (1 - share) * self._stretched(below, count) + share * self._stretched(above, count)
        total = float(mixed.sum())
        return mixed * (count / total) if total else np.ones(count)

    def _stretched(self, measured: int, count: int) -> NDArray[np.float64]:
        places = np.linspace(0, 1, count) if count > 1 else np.array([0.5])
        curve = np.interp(places, np.linspace(0, 1, measured), self.curves[measured].attention)
        return np.asarray(curve, dtype=np.float64)


@cache
def shipped() -> tuple[SlotProfile, ...]:
    """The profiles that come with the package."""
    return SlotProfile.shipped_in("profiles")


def choose_profile(given: Path | None, fingerprint: str, template: str) -> SlotProfile:
    """The profile of a file, or the shipped one of this model and wording.

    Raises:
        ArtefactError: a file that is no profile, or one of another model or wording.
        ConfigError: none is given and none ships.
    """
    if given is not None:
        return SlotProfile.load(given).check(fingerprint, template)
    for profile in shipped():
        if (profile.fingerprint, profile.template) == (fingerprint, template):
            return profile
    known = ", ".join(f"{profile.model} ({profile.fingerprint})" for profile in shipped()) or "none"
    raise ConfigError(
        f"no slot profile is known for model {fingerprint} with this prompt; known: {known}. "
        "Measure one with `rag order profile`"
    )
