"""From a model name in a configuration to a plain folder on this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rag.errors import ModelNotFoundError
from rag.models.catalog import ModelKind
from rag.models.store import ModelStore
from rag.models.wheels import MODEL_FILE_PATTERNS, Progress

Source = Literal["local", "gguf", "hub", "pypi"]

_HUB_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^@\s]+))?")
# Second copies of the weights in other formats, gigabytes that nothing here reads.
_HUB_IGNORED = ("onnx/*", "openvino/*", "original/*", "consolidated*")


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model on this machine: ``path`` is a folder that ``from_pretrained`` loads without a network.

    ``revision`` is a hub commit or a package version; ``gguf_file`` the local GGUF it was converted from.
    """

    name: str
    kind: ModelKind
    source: Source
    path: Path
    revision: str | None = None
    gguf_file: str | None = None


def resolve(
    name: str,
    *,
    kind: ModelKind,
    store: ModelStore | None = None,
    offline: bool = False,
    progress: Progress | None = None,
) -> ResolvedModel:
    """Find the model ``name``, fetching it where needed.

    Tried in this order: a local folder (with a ``config.json``) or ``*.gguf`` file; ``pypi:NAME`` or a
    bare catalogue name; ``hf:ORG/NAME[@REVISION]`` or a bare ``ORG/NAME[@REVISION]``.

    Args:
        name: what the user wrote.
        kind: what the model is for; a catalogue model of the other kind is refused.
        store: the model store; None means the default one.
        offline: fetch nothing; use what is on this machine.
        progress: called with one line per step of a fetch.

    Raises:
        ModelNotFoundError: nothing of the above, or it cannot be fetched; says what is accepted.
        ArtefactError: a model in the store is damaged, or a wheel's checksum is wrong.
        UnsupportedModelError: a GGUF file that transformers cannot read.
    """
    store = store or ModelStore()
    local = Path(name).expanduser()
    if name and local.exists():
        return _local(name, local, kind, store, progress)
    if name.startswith("pypi:") or name in store.entries:
        return _packaged(name, kind, store, offline, progress)
    hub = _HUB_NAME.fullmatch(name.removeprefix("hf:"))
    if hub is not None and not name.endswith(".gguf"):
        return _hub(name, hub["repo"], hub["revision"], kind, offline)
    raise ModelNotFoundError(f"unknown {kind} {name!r}; {_accepted(store, kind)}")


def public_name(name: str) -> str:
    """A model's name as it may be told to anyone: of a path on this machine the last part only."""
    path = Path(name).expanduser()
    is_path = path.is_absolute() or path.suffix.lower() == ".gguf" or name.startswith(".") or path.exists()
    return path.absolute().name if is_path else name


def _accepted(store: ModelStore, kind: ModelKind) -> str:
    names = ", ".join(name for name, entry in store.entries.items() if entry.kind == kind)
    packaged = f"a catalogue name ({names}), pypi:NAME of the same, " if names else ""
    return f"accepted: {packaged}a folder with a config.json, a .gguf file (llm only), or hf:ORG/NAME[@REVISION]"


def _local(name: str, path: Path, kind: ModelKind, store: ModelStore, progress: Progress | None) -> ResolvedModel:
    if path.is_dir() and (path / "config.json").is_file():
        return ResolvedModel(name, kind, "local", path.resolve())
    if path.is_file() and path.suffix.lower() == ".gguf" and kind == "llm":
        folder = store.add_gguf(path, progress=progress)
        return ResolvedModel(name, kind, "gguf", folder, gguf_file=str(path.resolve()))
    what = "is a folder without a config.json" if path.is_dir() else f"is a file that cannot be loaded as {kind}"
    raise ModelNotFoundError(f"{name!r} {what}; {_accepted(store, kind)}")


def _packaged(name: str, kind: ModelKind, store: ModelStore, offline: bool, progress: Progress | None) -> ResolvedModel:
    wanted = name.removeprefix("pypi:")
    packages = {wheel.package: title for title, entry in store.entries.items() for wheel in entry.wheels}
    title = wanted if wanted in store.entries else packages.get(wanted, "")
    if title not in store.entries:
        raise ModelNotFoundError(f"no package model {name!r}; {_accepted(store, kind)}")
    entry = store.entries[title]
    if entry.kind != kind:
        raise ModelNotFoundError(f"{name!r} is a model of kind {entry.kind}, not {kind}; {_accepted(store, kind)}")
    folder = store.fetch(title, offline=offline, progress=progress)
    return ResolvedModel(name, kind, "pypi", folder, revision=entry.wheels[0].version)


def _hub(name: str, repo: str, revision: str | None, kind: ModelKind, offline: bool) -> ResolvedModel:
    from huggingface_hub import snapshot_download

    from rag.models.quiet import quiet

    try:
        with quiet():
            snapshot = snapshot_download(
                repo,
                revision=revision,
                allow_patterns=list(MODEL_FILE_PATTERNS),
                ignore_patterns=list(_HUB_IGNORED),
                local_files_only=offline,
            )
    except (OSError, ValueError) as error:  # every hub error is one of them
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelNotFoundError(
            f"model {name!r} cannot be had from the hub{' (offline mode is on)' if offline else ''}: {reason}."
            " Check the name and the network; a gated model needs HF_TOKEN. Without a hub, give a local folder,"
            " a GGUF file or a catalogue name"
        ) from error
    path = Path(snapshot)
    if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
        raise ModelNotFoundError(
            f"hub model {name!r} has no config.json with safetensors weights; pickles are not read"
        )
    return ResolvedModel(name, kind, "hub", path, revision=path.name)
