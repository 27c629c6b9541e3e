"""The disk tier of the block cache: the blocks of a corpus in a folder, computed once and kept for good.

A store is a folder with ``meta.json`` (what its blocks were made with) and ``blocks-<n>.safetensors`` files that
are added and never changed, so that a kill at any moment leaves a valid store. Writers take turns through a file
lock; readers need none.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from rag.attention.segments import FORMAT, Segment, replace_durably
from rag.attention.store import StoredBlock
from rag.attention.template import Template
from rag.errors import ArtefactError

LAYOUT_VERSION = 1
"""To be raised when the same tokens get other keys and values: other positions, other masks."""

_META = "meta.json"
_SEGMENTS = "blocks-" + 8 * "[0-9]" + ".safetensors"
_CPU = torch.device("cpu")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """All that a stored block depends on besides its own tokens. The fields are the content of ``meta.json``.

    ``model`` is a fingerprint, ``frame`` a `frame_digest`, ``precision`` the storage type. How many layers are
    stored is a property of each block.
    """

    model: str
    frame: str
    precision: str
    layout: int = LAYOUT_VERSION
    format: str = FORMAT


def frame_digest(prefix: Sequence[int], template: Template) -> str:
    """Short hash of what stands before and around the documents. The words around the query are left out:
    no block depends on them.
    """
    framed = json.dumps([list(prefix), template.title_end, template.document_end])
    return hashlib.sha256(framed.encode()).hexdigest()[:16]


class BlockStore:
    """The blocks in a folder, found by `rag.attention.blocks.block_key`. Thread-safe.

    Where a block was stored more than once, the copy with the most layers counts. Files that cannot be used are
    left out and listed in ``damaged``.

    Args:
        folder: where the store lies.
        identity: what its blocks must have been made with; None accepts what is there (to check the files).
        device: where blocks are read to.

    Raises:
        ArtefactError: there is no store, it cannot be read, or it was made with something else.
    """

    def __init__(self, folder: Path, identity: StoreIdentity | None = None, *, device: torch.device = _CPU) -> None:
        self.folder = folder
        self.damaged: dict[Path, ArtefactError] = {}
        self._device = device
        self._segments: dict[Path, Segment] = {}
        self._where: dict[bytes, Segment] = {}
        self._guard = threading.RLock()
        self.identity = _checked(folder, identity)
        self.refresh()

    @classmethod
    def open_or_create(cls, folder: Path, identity: StoreIdentity) -> BlockStore:
        """The store in ``folder``, made first where there is none.

        Raises:
            ArtefactError: it cannot be made or read, or it was made with something else.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArtefactError(f"cannot make a block store in {folder}: {error}") from None
        meta = folder / _META
        if not meta.exists():
            with _only_writer(folder):
                _write_meta(meta, identity)
        return cls(folder, identity)

    def __len__(self) -> int:
        """Distinct blocks that can be read."""
        return len(self._where)

    @property
    def nbytes(self) -> int:
        """Bytes of the files whose blocks can be read."""
        with self._guard:
            return sum(path.stat().st_size for path in self._segments)

    # ---- reading -----------------------------------------------------------------------------------------------

    def depth(self, key: bytes) -> int:
        """How many layers of a block are stored; 0: none."""
        with self._guard:
            segment = self._where.get(key)
            return 0 if segment is None else segment.depths[key]

    def get(self, key: bytes, depth: int) -> StoredBlock | None:
        """The lowest ``depth`` layers of a block; None where the store has fewer, or where they cannot be read
        (which is logged once: from then on the block counts as not stored).
        """
        with self._guard:
            segment = self._where.get(key)
        if segment is None or segment.depths[key] < depth:
            return None
        try:
            return segment.read(key, depth, self._device)
        except ArtefactError as error:
            _log.warning("%s; the block is computed anew", error)
            with self._guard:
                self._where.pop(key, None)
            return None

    def refresh(self) -> None:
        """Take in files that were added, by this process or another one, since the last look."""
        with self._guard:
            for path in sorted(self.folder.glob(_SEGMENTS)):
                if path in self._segments or path in self.damaged:
                    continue
                try:
                    self._take_in(Segment(path))
                except ArtefactError as error:
                    self.damaged[path] = error

    def verify(self) -> Mapping[Path, ArtefactError]:
        """Read everything against its checksums; returns ``damaged``, the files that cannot be used and why."""
        for path, segment in list(self._segments.items()):
            try:
                segment.verify()
            except ArtefactError as error:
                self._leave_out(path, error)
        return self.damaged

    # ---- writing -----------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only writer, among all processes; waits for the one that is. Needed around `append`."""
        with _only_writer(self.folder):
            # Whoever left these was killed: a living writer would hold the lock.
            for leftover in self.folder.glob("*.tmp"):
                leftover.unlink()
            self.refresh()
            yield

    def append(self, blocks: Mapping[bytes, StoredBlock]) -> Path:
        """Store blocks in a new file, which is returned."""
        numbers = [int(path.stem.rpartition("-")[2]) for path in (*self._segments, *self.damaged)]
        segment = Segment.write(self.folder / f"blocks-{max(numbers, default=-1) + 1:08d}.safetensors", blocks)
        with self._guard:
            self._take_in(segment)
        return segment.path

    def require_whole(self, *, rebuild: bool = False) -> None:
        """Raise `ArtefactError` where a file is damaged; with ``rebuild``, check everything and drop such files."""
        if rebuild:
            self.rebuild()
        for error in self.damaged.values():
            raise ArtefactError(f"{error} (rebuild the store to drop the file and compute its blocks anew)")

    def rebuild(self) -> Mapping[Path, ArtefactError]:
        """Verify, and delete every damaged file; returns what was deleted and why. Its blocks count as not stored."""
        with self.writing():
            dropped = dict(self.verify())
            for path in dropped:
                path.unlink(missing_ok=True)
            self.damaged.clear()
        return dropped

    def compact(self) -> int:
        """Drop blocks that are stored with more layers in another file, a file at a time; returns the bytes freed.

        A kill at any moment loses nothing. Another process that reads meanwhile computes anew what it does not find.

        Raises:
            ArtefactError: a file is damaged or cannot be written.
        """
        self.require_whole()
        with self.writing():
            before = self.nbytes
            for path, segment in list(self._segments.items()):
                live = {key: depth for key, depth in segment.depths.items() if self._where.get(key) is segment}
                if len(live) == len(segment.depths):
                    continue
                kept = {key: segment.read(key, depth, _CPU) for key, depth in live.items()}
                with self._guard:
                    for key in kept:
                        del self._where[key]
                if kept:
                    self.append(kept)
                del self._segments[path]
                path.unlink()
            return before - self.nbytes

    # ---- parts -------------------------------------------------------------------------------------------------

    def _take_in(self, segment: Segment) -> None:
        self._segments[segment.path] = segment
        for key, depth in segment.depths.items():
            if depth > self.depth(key):
                self._where[key] = segment

    def _leave_out(self, path: Path, error: ArtefactError) -> None:
        with self._guard:
            self.damaged[path] = error
            del self._segments[path]
            self._where.clear()
            for segment in self._segments.values():
                self._take_in(segment)


def open_for_lookups(folder: Path, identity: StoreIdentity, device: torch.device) -> BlockStore:
    """A store to answer queries from: damaged files are logged, and what they held is computed anew.

    Raises:
        ArtefactError: there is no store, or it was made with something else.
    """
    store = BlockStore(folder, identity, device=device)
    for error in store.damaged.values():
        _log.warning("%s; its blocks are computed anew until the store is rebuilt", error)
    return store


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    lock = FileLock(folder / "write.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _log.info("waiting for the process that is writing to %s", folder)
        lock.acquire()
    except OSError as error:
        raise ArtefactError(f"cannot write to the block store {folder}: {error}") from None
    try:
        yield
    finally:
        lock.release()


def _write_meta(meta: Path, identity: StoreIdentity) -> None:
    if meta.exists():  # another process was faster
        return
    if any(meta.parent.glob(_SEGMENTS)):
        raise ArtefactError(f"{meta} is missing, but there are blocks beside it; accepted: a folder without")
    unfinished = meta.with_suffix(".tmp")
    unfinished.write_text(json.dumps(asdict(identity), indent=1) + "\n", encoding="utf-8")
    replace_durably(unfinished, meta)


def _checked(folder: Path, identity: StoreIdentity | None) -> StoreIdentity:
    """What the store was made with, if that is ``identity`` (or anything, for None)."""
    meta = folder / _META
    try:
        data: Any = json.loads(meta.read_bytes())
        if not isinstance(data, dict):
            raise ValueError(f"expected an object, found {type(data).__name__}")
    except FileNotFoundError:
        raise ArtefactError(f"no block store in {folder}: {meta} is missing (rag index makes a store)") from None
    except (OSError, ValueError) as error:
        raise ArtefactError(f"{meta} cannot be read: {error}") from None
    expected = {"format": FORMAT} if identity is None else asdict(identity)
    for what, value in expected.items():
        if data.get(what) != value:
            raise ArtefactError(f"block store {folder}: expected {what} {value}, found {data.get(what)}")
    try:
        return StoreIdentity(**data)
    except TypeError as error:
        raise ArtefactError(f"{meta} cannot be read: {error}") from None
