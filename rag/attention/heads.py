"""Head lists: which heads of a model carry relevance, found from labelled queries and kept as JSON.

A list belongs to one model, one prompt wording and one layout; the engine refuses a list made for another.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar, Literal, get_args

from rag.artefacts import Artefact, require_same
from rag.attention.types import Head, Layout
from rag.errors import ConfigError

Task = Literal["document", "sentence"]


class HeadList(Artefact, frozen=True):
    """Heads for one task, best first, with the score each was chosen by.

    ``fingerprint`` identifies the model (`rag.models.fingerprint`, which covers its tokenizer), ``template``
    the prompt wording (`Template.digest`). ``method`` and ``data`` say how and on what they were found.
    """

    refusal: ClassVar[str] = "is not a head list"

    format: Literal["rag.heads/1"] = "rag.heads/1"
    model: str
    fingerprint: str
    template: str
    layout: Layout
    task: Task
    method: str
    data: str
    heads: tuple[Head, ...]
    scores: tuple[float, ...]

    def check(self, fingerprint: str, template: str, layout: str, task: str) -> HeadList:
        """Return the list if it was made for this model, wording, layout and task.

        Raises:
            ArtefactError: it was not; says what it was made for and what is in use.
        """
        require_same(
            f"head list of {self.model!r}",
            ("model", self.fingerprint, fingerprint),
            ("prompt template", self.template, template),
            ("layout", self.layout, layout),
            ("task", self.task, task),
        )
        return self


@cache
def shipped() -> tuple[HeadList, ...]:
    """The lists that come with the package."""
    return HeadList.shipped_in("heads")


def default_heads(fingerprint: str, template: str, layout: str, task: str) -> tuple[Head, ...]:
    """The shipped heads of a model for a task.

    Raises:
        ConfigError: an unknown task, or no list for this model, wording and layout.
    """
    if task not in get_args(Task):
        raise ConfigError(f"task {task!r}; accepted: {', '.join(get_args(Task))}")
    lists = shipped()
    for item in lists:
        if (item.fingerprint, item.template, item.layout, item.task) == (fingerprint, template, layout, task):
            return item.heads
    known = ", ".join(
        sorted({f"{item.model} ({item.fingerprint}), {item.layout} layout" for item in lists if item.task == task})
    )
    raise ConfigError(
        f"no {task} heads are known for model {fingerprint} with this prompt in the {layout} layout; known: {known}. "
        "Find some with `rag heads detect`, or name the heads in the configuration"
    )
