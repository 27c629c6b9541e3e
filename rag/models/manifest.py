"""What a folder of the model store must hold: a digest per file and where the files came from."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pydantic

from rag.errors import ArtefactError

FILE_NAME = "manifest.json"
# Config keys that say who wrote the file, not what the model computes.
_VOLATILE = frozenset({"transformers_version", "_name_or_path", "_model_name_or_path", "dtype", "torch_dtype"})


class FileRecord(pydantic.BaseModel, frozen=True):
    """Size in bytes and SHA-256 of one file."""

    bytes: int
    sha256: str


class Manifest(pydantic.BaseModel, frozen=True):
    """The contents of a model folder; ``source`` identifies what it was made from, ``fingerprint`` the model."""

    name: str
    licence: str
    source: tuple[str, ...]
    fingerprint: str
    files: dict[str, FileRecord]

    @property
    def total_bytes(self) -> int:
        """Size of all files together."""
        return sum(record.bytes for record in self.files.values())


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_manifest(
    folder: Path, *, name: str, licence: str, source: tuple[str, ...], fingerprint: str = ""
) -> Manifest:
    """Hash every file of ``folder`` and write its manifest; an empty ``fingerprint`` is made from the content."""
    files = {
        path.relative_to(folder).as_posix(): FileRecord(bytes=path.stat().st_size, sha256=sha256_of(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    digests = {file: record.sha256 for file, record in files.items()}
    manifest = Manifest(
        name=name,
        licence=licence,
        source=source,
        fingerprint=fingerprint or content_fingerprint(folder, digests),
        files=files,
    )
    (folder / FILE_NAME).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
    return manifest


def read_manifest(folder: Path) -> Manifest | None:
    """The folder's manifest, None where it has none.

    Raises:
        ArtefactError: there is a manifest and it cannot be read.
    """
    path = folder / FILE_NAME
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise ArtefactError(f"{path} is damaged ({error}); fetch the model again with force=True") from None


def check_files(folder: Path, manifest: Manifest, *, digests: bool) -> None:
    """Compare a folder with its manifest: sizes (one stat per file), or also the SHA-256 of each file.

    Raises:
        ArtefactError: names each file that is missing or differs.
    """
    problems = []
    for file, record in manifest.files.items():
        path = folder / file
        if not path.is_file():
            problems.append(f"{file} is missing")
        elif (size := path.stat().st_size) != record.bytes:
            problems.append(f"{file} has {size} bytes, expected {record.bytes}")
        elif digests and (digest := sha256_of(path)) != record.sha256:
            problems.append(f"{file} has sha256 {digest}, expected {record.sha256}")
    if problems:
        raise ArtefactError(
            f"model {manifest.name!r} in {folder} is damaged: {'; '.join(problems)}; fetch it again with force=True"
        )


def content_fingerprint(folder: Path, digests: dict[str, str]) -> str:
    """16 hex digits that depend on the model's config, tokenizer and weights, not on who saved them.

    JSON is compared by value (key order and white space do not count) and without the keys that
    only say which library version wrote it.
    """
    total = hashlib.sha256()
    for name in ("config.json", "tokenizer.json"):
        path = folder / name
        if path.is_file():
            data = json.loads(path.read_bytes())
            kept = {key: value for key, value in data.items() if key not in _VOLATILE}
            total.update(f"{name}\n{json.dumps(kept, sort_keys=True)}\n".encode())
    for name in sorted(file for file in digests if file.endswith(".safetensors")):
        total.update(f"{name}\n{digests[name]}\n".encode())
    return total.hexdigest()[:16]
