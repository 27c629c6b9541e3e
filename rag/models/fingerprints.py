"""Which model a folder holds: hashed once, and known by every later process until a file changes."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

import pydantic

from rag.models.manifest import content_fingerprint, read_manifest, sha256_of
from rag.models.store import ModelStore

FILE_NAME = ".fingerprints.json"

_log = logging.getLogger(__name__)


class _Known(pydantic.BaseModel, frozen=True):
    """A fingerprint, and the (name, size, mtime in nanoseconds) of the files it was made from."""

    files: tuple[tuple[str, int, int], ...]
    fingerprint: str = pydantic.Field(pattern="^[0-9a-f]{16}$")


_FOLDERS = pydantic.TypeAdapter(dict[str, _Known])


def fingerprint(path: Path, store: ModelStore | None = None) -> str:
    """16 hex digits that identify the model in a folder: equal for equal models, on every machine.

    Read from the manifest where the store made the folder (a converted GGUF is identified by the GGUF
    itself), else computed from the content and remembered in the store's folder until a file changes.

    Args:
        path: a model folder.
        store: where to remember it; None means the default store.

    Raises:
        ArtefactError: the manifest is damaged.
    """
    manifest = read_manifest(path)
    if manifest is not None:
        return manifest.fingerprint
    cache, folder = (store or ModelStore()).root / FILE_NAME, str(path.absolute())
    files = _stamps(path)
    known = _read(cache)
    if folder in known and known[folder].files == files:
        return known[folder].fingerprint
    made = content_fingerprint(path, {name: sha256_of(path / name) for name, _, _ in files if _is_weights(name)})
    _write(
        cache,
        {name: of for name, of in known.items() if Path(name).is_dir()},
        folder,
        _Known(files=files, fingerprint=made),
    )
    return made


def _is_weights(name: str) -> bool:
    return name.endswith(".safetensors")


def _stamps(path: Path) -> tuple[tuple[str, int, int], ...]:
    names = ("config.json", "tokenizer.json")
    files = sorted(file for file in path.iterdir() if file.name in names or _is_weights(file.name))
    return tuple((file.name, stat.st_size, stat.st_mtime_ns) for file in files for stat in [file.stat()])


def _read(cache: Path) -> dict[str, _Known]:
    """What is remembered; nothing where the file is not there or damaged, since all of it can be made again."""
    try:
        return _FOLDERS.validate_json(cache.read_bytes())
    except (OSError, ValueError):
        return {}


def _write(cache: Path, known: dict[str, _Known], folder: str, entry: _Known) -> None:
    """Replace the file in one step; of two processes at once the last wins, and the other's folder is hashed again."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=cache.parent, prefix=FILE_NAME)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(_FOLDERS.dump_json({**known, folder: entry}, indent=1))
            os.replace(name, cache)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        _log.info("the fingerprint of %s is not remembered: %s", folder, error)
