"""Stored corpora on disk: one file of JSON lines each, replaced as a whole."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from rag.api.errors import ApiError
from rag.corpus import read_documents
from rag.errors import ConfigError, RagError, shown
from rag.types import Document

# No separator, no dot, and one case only: what matches is a file name on any system, and no two are one file.
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_SUFFIX = ".jsonl"


def check_name(name: str) -> str:
    """Return a name that may stand for a corpus, else raise `ApiError` (422)."""
    if not NAME.fullmatch(name):
        raise ApiError(
            422,
            f"corpus name {shown(name)}; accepted: 1 to 64 of a-z, 0-9, - and _, beginning with a letter or a digit",
            param="name",
        )
    return name


def as_line(document: Document) -> str:
    """A document as a line of JSON, which `rag.corpus.read_documents` (and `rag context`) reads."""
    fields: dict[str, Any] = {"id": document.id, "text": document.text}
    if document.title:
        fields["title"] = document.title
    if document.metadata:
        fields["metadata"] = document.metadata
    return json.dumps(fields, ensure_ascii=False, allow_nan=False)


class CorpusFolder:
    """The files of one service's corpora, made where there is none. Every write replaces a file as a whole.

    Raises:
        ConfigError: the folder cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"server.corpora.folder {shown(str(path), 300)}: {error.strerror}") from None

    def load(self) -> dict[str, list[Document]]:
        """Every corpus by name; files with other names are left alone.

        Raises:
            ConfigError: a file that is damaged, naming it and the line.
        """
        try:
            files = sorted(self._path.glob(f"*{_SUFFIX}"))
            return {file.stem: read_documents([file]) for file in files if NAME.fullmatch(file.stem)}
        except (RagError, OSError) as error:
            raise ConfigError(f"server.corpora.folder: {error}") from error

    def save(self, name: str, documents: Iterable[Document]) -> None:
        """Write a corpus; after a crash the file is as it was before or as it is now."""
        with NamedTemporaryFile("w", dir=self._path, prefix=".", encoding="utf-8", newline="", delete=False) as file:
            try:
                file.writelines(f"{as_line(document)}\n" for document in documents)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, self._file(name))
            except BaseException:
                os.unlink(file.name)
                raise

    def delete(self, name: str) -> None:
        """Remove a corpus's file."""
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._path / f"{check_name(name)}{_SUFFIX}"
