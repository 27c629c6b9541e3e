"""Corpora that the service keeps: documents by id, and a pipeline each, whose indices and embeddings stay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from rag.api.corpora_files import CorpusFolder, as_line, check_name
from rag.api.errors import ApiError
from rag.checks import check_limits
from rag.config import CorporaSettings, LimitSettings, Settings
from rag.errors import ConfigError, LimitError
from rag.pipeline import Pipeline
from rag.types import Document


@dataclass(frozen=True, slots=True)
class StoredCorpus:
    """One state of a corpus; a change makes another.

    ``documents`` are in the order in which their ids came first; ``size`` is in bytes, as JSON lines. The pipeline
    holds the indices of this corpus and its embeddings; a search after a change embeds only what is new.
    """

    name: str
    documents: Mapping[str, Document]
    size: int
    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class Change:
    """A corpus after a change, whether it was made by it, and the ids that the change was about."""

    corpus: StoredCorpus
    made: bool = False
    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class Corpora:
    """All corpora of a service, safe for many threads. What is changed is on disk before it is seen, given a folder.

    Args:
        service: the pipeline that answers, whose models the corpora's pipelines use.

    Raises:
        ConfigError: the folder cannot be made or read, or holds more than the settings allow.
    """

    def __init__(self, service: Pipeline) -> None:
        settings = service.settings
        self._bounds: CorporaSettings = settings.server.corpora
        self._limits: LimitSettings = settings.limits
        self._make: Callable[[], Pipeline] = lambda: Pipeline(
            _with_room(settings, self._bounds), engine=service.engine, embedder=service.resources.embedder()
        )
        self._lock = threading.Lock()
        self._corpora: dict[str, StoredCorpus] = {}
        self._folder = CorpusFolder(self._bounds.folder) if self._bounds.folder else None
        if self._folder:
            self._load(self._folder)

    def all(self) -> list[StoredCorpus]:
        """Every corpus as it is now, by name."""
        return [corpus for _, corpus in sorted(self._corpora.copy().items())]

    def get(self, name: str) -> StoredCorpus:
        """The corpus as it is now.

        Raises:
            ApiError: the name is none (422), or there is no such corpus (404).
        """
        found = self._corpora.get(check_name(name))
        if found is None:
            raise ApiError(
                404, f"there is no corpus {name!r}; PUT /v1/corpora/{name} makes it", code="no_corpus", param="name"
            )
        return found

    def put(self, name: str, documents: Sequence[Document]) -> Change:
        """Make or replace a corpus that holds exactly ``documents``.

        Raises:
            ApiError: as `get`, but for the 404.
            LimitError: too many corpora, documents or bytes.
        """
        check_name(name)
        with self._lock:
            new = name not in self._corpora
            if new and len(self._corpora) >= self._bounds.count:
                raise LimitError(
                    f"the service stores {len(self._corpora)} corpora; accepted: up to {self._bounds.count} "
                    "(server.corpora.count)"
                )
            check_limits(documents, self._limits)
            made = self._sized(StoredCorpus(name, _by_id(documents), 0, self._make()))
            self._keep(made)
        return Change(made, new, added=tuple(made.documents))

    def add(self, name: str, documents: Sequence[Document]) -> Change:
        """Add documents, in place of those with the same ids.

        Raises:
            ApiError: as `get`.
            LimitError: too many documents or bytes; nothing was added then.
        """
        check_limits(documents, self._limits)
        with self._lock:
            now = self.get(name)
            made = self._sized(replace(now, documents=_by_id([*now.documents.values(), *documents])))
            self._keep(made)
        new = {document.id: document.id in now.documents for document in documents}
        return Change(
            made,
            added=tuple(id for id, known in new.items() if not known),
            replaced=tuple(id for id, known in new.items() if known),
        )

    def remove(self, name: str, ids: Sequence[str]) -> Change:
        """Delete documents; ids that are not there are told.

        Raises:
            ApiError: as `get`.
        """
        with self._lock:
            now = self.get(name)
            given = dict.fromkeys(ids)
            left = [document for id, document in now.documents.items() if id not in given]
            made = self._sized(replace(now, documents=_by_id(left)))
            self._keep(made)
        return Change(
            made,
            deleted=tuple(id for id in given if id in now.documents),
            unknown=tuple(id for id in given if id not in now.documents),
        )

    def delete(self, name: str) -> StoredCorpus:
        """Forget a corpus and its file.

        Raises:
            ApiError: as `get`.
        """
        with self._lock:
            found = self.get(name)
            if self._folder:
                self._folder.delete(name)
            del self._corpora[name]
        return found

    def _keep(self, corpus: StoredCorpus) -> None:
        if self._folder:
            self._folder.save(corpus.name, corpus.documents.values())
        self._corpora[corpus.name] = corpus

    def _sized(self, corpus: StoredCorpus) -> StoredCorpus:
        """The corpus with its size, if that is within the bounds."""
        if len(corpus.documents) > self._bounds.documents:
            raise LimitError(
                f"corpus {corpus.name!r} would hold {len(corpus.documents)} documents; accepted: up to "
                f"{self._bounds.documents} (server.corpora.documents)"
            )
        size = sum(len(as_line(document).encode()) + 1 for document in corpus.documents.values())
        if size > self._bounds.bytes:
            raise LimitError(
                f"corpus {corpus.name!r} would have {size} bytes; accepted: up to {int(self._bounds.bytes)} "
                "(server.corpora.bytes)"
            )
        return replace(corpus, size=size)

    def _load(self, folder: CorpusFolder) -> None:
        loaded = folder.load()
        if len(loaded) > self._bounds.count:
            raise ConfigError(
                f"server.corpora.folder holds {len(loaded)} corpora; accepted: up to {self._bounds.count} "
                "(server.corpora.count)"
            )
        for name, documents in loaded.items():
            try:
                self._corpora[name] = self._sized(StoredCorpus(name, _by_id(documents), 0, self._make()))
            except LimitError as error:
                raise ConfigError(f"server.corpora.folder: {error}") from None


def _by_id(documents: Iterable[Document]) -> Mapping[str, Document]:
    """By id; a later one takes the place of an earlier."""
    return MappingProxyType({document.id: document for document in documents})


def _with_room(settings: Settings, bounds: CorporaSettings) -> Settings:
    """The settings under which a whole stored corpus is within the limits: those of requests bound what is sent."""
    room = {"documents": bounds.documents, "total_characters": int(bounds.bytes)}
    return settings.model_copy(update={"limits": settings.limits.model_copy(update=room)})
