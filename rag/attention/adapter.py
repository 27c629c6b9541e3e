"""Trained attention as an artefact: low-rank changes of query and key projections, and how to read the heads.

One safetensors file: two matrices per changed projection (LoRA, Hu et al., ICLR 2022), and `AdapterInfo` as JSON in its
metadata. Only what attends is changed (queries and keys), so the model's words and values stay what they were.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Self

import pydantic
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from rag.artefacts import require_same
from rag.attention.heads import Task
from rag.attention.types import Head, Layout
from rag.errors import ArtefactError

if TYPE_CHECKING:
    from rag.attention.decoder import Decoder

_INFO = "rag.adapter"
_TENSOR = re.compile(r"(\d+)\.(q_proj|k_proj)\.(down|up)")


class TaskHeads(pydantic.BaseModel, frozen=True, extra="forbid"):
    """The heads that were trained for one task, and what each counts.

    ``weights`` multiply the heads' z-scored document scores before these are summed; ``temperature`` divides the sum
    where a softmax over the documents is taken of it.
    """

    heads: Annotated[tuple[Head, ...], pydantic.Field(min_length=1)]
    weights: tuple[pydantic.FiniteFloat, ...]
    temperature: Annotated[pydantic.FiniteFloat, pydantic.Field(gt=0)] = 1.0

    @pydantic.model_validator(mode="after")
    def _one_weight_each(self) -> Self:
        if len(self.weights) != len(self.heads):
            raise ValueError(f"{len(self.heads)} heads have {len(self.weights)} weights")
        return self


class AdapterInfo(pydantic.BaseModel, frozen=True, extra="forbid"):
    """What an adapter was trained for, and with.

    ``fingerprint`` identifies the model without the adapter (`rag.models.fingerprint`), ``template`` the prompt wording
    (`Template.digest`). ``tasks`` holds the heads of each task that it was trained for; for another task a stage has
    to be given heads, since the lists that ship were found on the bare model. No layer above ``exit_layer`` is read or
    changed. The change of a projection is up @ down * alpha / rank. ``method`` and ``data`` say how and on what it was
    trained.
    """

    format: Literal["rag.adapter/1"] = "rag.adapter/1"
    model: str
    fingerprint: str
    template: str
    layout: Layout
    alpha: Annotated[pydantic.FiniteFloat, pydantic.Field(gt=0)]
    exit_layer: Annotated[int, pydantic.Field(ge=0)]
    tasks: dict[Task, TaskHeads]
    method: str
    data: str

    @pydantic.model_validator(mode="after")
    def _within_exit(self) -> Self:
        above = [str(head) for task in self.tasks.values() for head in task.heads if head.layer > self.exit_layer]
        if above:
            raise ValueError(f"heads {', '.join(above)} are above the exit layer {self.exit_layer}")
        return self


class Projection(NamedTuple):
    """A query or key projection of one decoder layer (from 0)."""

    layer: int
    name: Literal["q_proj", "k_proj"]

    def __str__(self) -> str:
        return f"{self.layer}.{self.name}"


class Factors(NamedTuple):
    """The low-rank change of one projection: down (rank, inputs), up (outputs, rank)."""

    down: torch.Tensor
    up: torch.Tensor


@dataclass(frozen=True)
class AttentionAdapter:
    """An adapter in memory: its description and the factors of every projection that it changes.

    Raises:
        ArtefactError: factors whose shapes do not fit each other, that are not finite, or above the exit layer.
    """

    info: AdapterInfo
    factors: Mapping[Projection, Factors]

    def __post_init__(self) -> None:
        for place, (down, up) in self.factors.items():
            if down.dim() != 2 or up.dim() != 2 or down.shape[0] != up.shape[1]:
                shapes = f"down {tuple(down.shape)} and up {tuple(up.shape)}"
                raise ArtefactError(f"adapter, {place}: expected (rank, inputs) and (outputs, rank), found {shapes}")
            if not bool(torch.isfinite(down).all() and torch.isfinite(up).all()):
                raise ArtefactError(f"adapter, {place}: expected finite numbers, found NaN or infinity")
            if place.layer > self.info.exit_layer:
                raise ArtefactError(f"adapter, {place}: expected layers up to {self.info.exit_layer} (its exit layer)")

    @classmethod
    def load(cls, path: Path) -> AttentionAdapter:
        """Read an adapter.

        Raises:
            ArtefactError: the file cannot be read as one; names the file.
        """
        try:
            with safe_open(path, "pt") as file:
                info = AdapterInfo.model_validate_json((file.metadata() or {}).get(_INFO, ""))
                tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
            return cls(info, _factors(tensors))
        except (OSError, SafetensorError, ValueError, ArtefactError) as error:
            raise ArtefactError(f"{path} is not an attention adapter: {error}") from None

    def save(self, path: Path) -> None:
        """Write the adapter to one safetensors file."""
        tensors = {
            f"{place}.{part}": tensor.detach().float().cpu().contiguous()
            for place, factors in self.factors.items()
            for part, tensor in factors._asdict().items()
        }
        save_file(tensors, path, {_INFO: self.info.model_dump_json()})

    def check(self, fingerprint: str, template: str, layout: str) -> AttentionAdapter:
        """Return the adapter if it was made for this model, wording and layout.

        Raises:
            ArtefactError: it was not; says what it was made for and what is in use.
        """
        info = self.info
        require_same(
            f"attention adapter of {info.model!r}",
            ("model", info.fingerprint, fingerprint),
            ("prompt template", info.template, template),
            ("layout", info.layout, layout),
        )
        return self

    def digest(self) -> str:
        """Short hash of what changes the model's numbers: the factors and alpha, not the heads that are read."""
        total = hashlib.sha256(repr(self.info.alpha).encode())
        for place in sorted(self.factors):
            for tensor in self.factors[place]:
                total.update(f"{place} {tuple(tensor.shape)}".encode())
                total.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
        return total.hexdigest()[:16]

    def apply(self, decoder: Decoder) -> Decoder:
        """A decoder with the adapter in place; ``decoder`` stays as it is, and both share all weights.

        Its fingerprint is another, so that no block, head list or probe of the one is ever taken for the other's.

        Raises:
            ArtefactError: the model lacks a projection that the adapter changes, or has it in another shape.
        """
        shared = {id(tensor): tensor for tensor in chain(decoder.model.parameters(), decoder.model.buffers())}
        model = copy.deepcopy(decoder.model, shared)
        for place, factors in self.factors.items():
            attention, base = _projection(model, place)
            expected = (factors.up.shape[0], factors.down.shape[1])
            found = (base.out_features, base.in_features)
            if expected != found:
                raise ArtefactError(
                    f"adapter, {place}: expected a projection of {expected[1]} inputs and {expected[0]} outputs, "
                    f"found {found[1]} and {found[0]}"
                )
            setattr(attention, place.name, LowRankLinear(base, factors, self.info.alpha))
        both = f"{decoder.fingerprint}:{self.digest()}"
        return replace(decoder, model=model, fingerprint=hashlib.sha256(both.encode()).hexdigest()[:16])


class LowRankLinear(torch.nn.Module):
    """A linear layer plus a low-rank change: base(x) + up(down(x)) * alpha / rank.

    The factors are parameters in the base layer's type and place, without gradients until training asks for them.
    """

    def __init__(self, base: torch.nn.Linear, factors: Factors, alpha: float) -> None:
        super().__init__()
        like = base.weight
        self.base = base
        self.down, self.up = (
            torch.nn.Parameter(factor.detach().clone().to(like.device, like.dtype), requires_grad=False)
            for factor in factors
        )
        self.scale = alpha / factors.down.shape[0]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Shape (..., inputs) to (..., outputs)."""
        linear = torch.nn.functional.linear
        output: torch.Tensor = self.base(inputs)
        return output + linear(linear(inputs, self.down), self.up) * self.scale


def _projection(model: torch.nn.Module, place: Projection) -> tuple[torch.nn.Module, torch.nn.Linear]:
    """The attention module of a layer, and the projection in it."""
    try:
        attention = model.get_submodule(f"layers.{place.layer}.self_attn")
        projection = attention.get_submodule(place.name)
    except AttributeError:
        raise ArtefactError(
            f"adapter, {place}: expected such a projection, found none in {type(model).__name__}"
        ) from None
    if not isinstance(projection, torch.nn.Linear):
        raise ArtefactError(f"adapter, {place}: expected a linear layer, found {type(projection).__name__}")
    return attention, projection


def _factors(tensors: Mapping[str, torch.Tensor]) -> dict[Projection, Factors]:
    """Tensors by name to factors by projection; `ArtefactError` for a name that is no factor's or lacks its pair."""
    found: dict[Projection, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        match = _TENSOR.fullmatch(name)
        if match is None:
            raise ArtefactError(f"adapter: expected tensors named like 3.q_proj.down, found {name}")
        place = Projection(int(match[1]), match[2])  # type: ignore[arg-type]
        found.setdefault(place, {})[match[3]] = tensor
    if alone := [str(place) for place, parts in found.items() if len(parts) != 2]:
        raise ArtefactError(
            f"adapter: expected down and up of each projection, found one of them of {', '.join(alone)}"
        )
    return {place: Factors(**parts) for place, parts in found.items()}
