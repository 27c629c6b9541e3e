"""One file of the block store: many blocks as safetensors, written whole or not at all, checked when read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from rag.attention.store import PackedTensor, StoredBlock
from rag.errors import ArtefactError

FORMAT = "rag.blocks/1"
_FORMAT_KEY = "format"


class Segment:
    """A file of blocks whose header was read and fits the file's size.

    A block's tensors are named by its key in hexadecimal and the part: ``<key>.keys``, ``<key>.values``, and for
    int8 ``<key>.keys.scale`` and ``<key>.values.scale``. The file's metadata holds a CRC-32 per block.

    Raises:
        ArtefactError: the file is cut short, is none of this format, or its header is damaged; names the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with safe_open(path, "pt") as file:
                metadata = file.metadata() or {}
                found = metadata.pop(_FORMAT_KEY, None)
                if found != FORMAT:
                    raise ArtefactError(f"{path}: expected format {FORMAT}, found {found}")
                self.depths = {
                    bytes.fromhex(name): int(file.get_slice(f"{name}.keys").get_shape()[0]) for name in metadata
                }
        except (OSError, SafetensorError, ValueError, IndexError) as error:
            raise ArtefactError(f"{path} cannot be read as a file of blocks: {error}") from None

    @classmethod
    def write(cls, path: Path, blocks: Mapping[bytes, StoredBlock]) -> Segment:
        """Write blocks to ``path``; a kill at any moment leaves the whole file or none, and perhaps a ``*.tmp``.

        Raises:
            ArtefactError: the file cannot be written (a full disk, a folder that may not be written to).
        """
        tensors: dict[str, torch.Tensor] = {}
        metadata = {_FORMAT_KEY: FORMAT}
        for key, block in blocks.items():
            parts = _parts(block)
            tensors.update({f"{key.hex()}.{part}": tensor for part, tensor in parts.items()})
            metadata[key.hex()] = _checksum(parts)
        unfinished = path.with_suffix(".tmp")
        try:
            save_file(tensors, unfinished, metadata)
            replace_durably(unfinished, path)
        except (OSError, SafetensorError) as error:
            unfinished.unlink(missing_ok=True)
            raise ArtefactError(f"cannot write {path}: {error}") from None
        return cls(path)

    def read(self, key: bytes, depth: int, device: torch.device) -> StoredBlock:
        """The lowest ``depth`` layers of one block, in memory of their own.

        Every read maps the file anew: a mapping that stayed open would keep each page it ever touched resident,
        outside of the cache's byte budget.

        Raises:
            ArtefactError: the file does not hold what was written; names the file.
        """
        name = key.hex()
        try:
            with safe_open(self.path, "pt") as file:
                parts = {part: file.get_tensor(f"{name}.{part}") for part in ("keys", "values")}
                if parts["keys"].dtype == torch.int8:
                    parts |= {part: file.get_tensor(f"{name}.{part}") for part in ("keys.scale", "values.scale")}
                if _checksum(parts) != file.metadata()[name]:
                    raise ArtefactError(f"{self.path}: block {name} does not match its checksum")
                return StoredBlock(
                    _packed(parts["keys"], parts.get("keys.scale"), depth, device),
                    _packed(parts["values"], parts.get("values.scale"), depth - 1, device),
                )
        except (OSError, SafetensorError, KeyError, TypeError) as error:
            raise ArtefactError(f"{self.path}: block {name} cannot be read: {error}") from None

    def verify(self) -> None:
        """Read every block against its checksum.

        Raises:
            ArtefactError: the first block that does not match; names the file.
        """
        for key, depth in self.depths.items():
            self.read(key, depth, torch.device("cpu"))


def replace_durably(unfinished: Path, path: Path) -> None:
    """Rename a finished file into place once its bytes are on the disk, and the rename too."""
    _sync(unfinished, os.O_RDWR)
    os.replace(unfinished, path)
    if os.name == "posix":  # elsewhere a folder cannot be opened as a file
        _sync(path.parent, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _parts(block: StoredBlock) -> dict[str, torch.Tensor]:
    named = {
        "keys": block.keys.data,
        "values": block.values.data,
        "keys.scale": block.keys.scale,
        "values.scale": block.values.scale,
    }
    return {part: tensor.cpu().contiguous() for part, tensor in named.items() if tensor is not None}


def _checksum(parts: Mapping[str, torch.Tensor]) -> str:
    """CRC-32 over the content of a block's tensors and over what the file's header says of them."""
    checksum = 0
    for part in sorted(parts):
        tensor = parts[part]
        checksum = zlib.crc32(f"{part} {tensor.dtype} {tuple(tensor.shape)}".encode(), checksum)
        checksum = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, checksum)
    return f"{checksum:08x}"


def _packed(data: torch.Tensor, scale: torch.Tensor | None, depth: int, device: torch.device) -> PackedTensor:
    return PackedTensor(_own(data, depth, device), None if scale is None else _own(scale, depth, device))


def _own(mapped: torch.Tensor, depth: int, device: torch.device) -> torch.Tensor:
    """The lowest layers of a tensor of the mapped file, copied out of it."""
    return mapped[:depth].to(device, copy=True)
