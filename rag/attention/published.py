"""Head lists that others have published, by name: ``published:llama-3.1-8b-nq``.

They carry no fingerprint of our own, since they were found with other code and another prompt. What can be checked is
that the loaded model has their shape.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import ClassVar, Literal

from rag.artefacts import Artefact
from rag.attention.types import Head
from rag.errors import ArtefactError, ConfigError, shown

PREFIX = "published:"
"""What the name of a published list starts with, where an option also takes a file."""

_log = logging.getLogger(__name__)


class PublishedHeads(Artefact, frozen=True):
    """Retrieval heads of one model as a paper lists them, best first.

    ``architecture`` is the model's family in transformers. ``data`` and ``prompt`` say on what and with which prompt
    they were found: heads depend on both (of the two lists for Llama-3.1-8B only three heads are in both).
    """

    refusal: ClassVar[str] = "is not a published head list"

    format: Literal["rag.published-heads/1"]
    name: str
    model: str
    architecture: str
    layers: int
    heads_per_layer: int
    data: str
    prompt: str
    citation: str
    heads: tuple[Head, ...]

    def check(self, architecture: str, layers: int, heads_per_layer: int) -> PublishedHeads:
        """Return the list if a model of this shape is what it was published for.

        The shape tells families and sizes apart, not a fine-tuned model from its base.

        Raises:
            ArtefactError: another architecture, or another number of layers or heads; says expected and found.
        """
        expected = (self.architecture, self.layers, self.heads_per_layer)
        found = (architecture, layers, heads_per_layer)
        if expected != found:
            raise ArtefactError(
                f"head list {PREFIX + self.name!r}, published for {self.model}: "
                f"expected {_shape(*expected)}, found {_shape(*found)}"
            )
        return self


def _shape(architecture: str, layers: int, heads_per_layer: int) -> str:
    return f"{architecture} with {layers} layers of {heads_per_layer} heads"


@cache
def published() -> tuple[PublishedHeads, ...]:
    """The published lists that come with the package, sorted by name."""
    return PublishedHeads.shipped_in("heads", "published")


def find(name: str) -> PublishedHeads:
    """The list that ``name`` (with the prefix) stands for.

    Raises:
        ConfigError: there is none of that name; lists those there are.
    """
    lists = {PREFIX + item.name: item for item in published()}
    if name not in lists:
        raise ConfigError(f"no head list {shown(name)}; published lists: {', '.join(lists)}")
    return lists[name]


@cache
def warn_of_prompt(item: PublishedHeads) -> None:
    """Say once in the log that a list was found with another prompt than the engine's."""
    _log.warning(
        "head list %s was found on %s for ranking documents, with another prompt (%s); "
        "`rag heads detect` finds the heads for the prompt in use",
        PREFIX + item.name,
        item.data,
        item.prompt,
    )
