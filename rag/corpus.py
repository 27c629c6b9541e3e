"""From what a caller has (strings, mappings, files) to `Document` values."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rag.checks import require_encodable
from rag.errors import InputError, NotTextError, shown
from rag.types import Document, check_unique_ids

STDIN = "-"
_ID_KEYS = ("id", "_id")


def as_documents(corpus: Iterable[str | Document | Mapping[str, Any]]) -> list[Document]:
    """Turn the entries of a corpus into documents; an entry without an id gets its position ("0", "1", ...).

    A mapping holds ``text`` and optionally ``id`` (or ``_id``), ``title`` and ``metadata``; its other
    keys are kept in the metadata.

    Raises:
        InputError: the corpus is not a list, or an entry has no text.
        NotTextError: an entry, or one of its texts, is not a string (the message names the index), or
            holds characters that cannot be encoded.
        DuplicateIdsError: two entries have the same id.
    """
    if isinstance(corpus, str | bytes | Mapping) or not isinstance(corpus, Iterable):
        raise InputError(
            f"corpus must be a list of strings, mappings or Documents, got {type(corpus).__name__}"
            + (" (put a single text in a list)" if isinstance(corpus, str) else "")
        )
    documents = [_as_document(entry, index) for index, entry in enumerate(corpus)]
    check_unique_ids(documents)
    return documents


def _as_document(entry: str | Document | Mapping[str, Any], index: int) -> Document:
    if isinstance(entry, Document):
        document = entry
    elif isinstance(entry, str):
        document = Document(str(index), entry)
    elif isinstance(entry, Mapping):
        return document_from_mapping(entry, default_id=str(index), where=f"document at index {index}")
    else:
        raise NotTextError(
            f"document at index {index} must be a string, a mapping with 'text' or a Document, "
            f"got {type(entry).__name__}"
        )
    return _encodable(document, f"document at index {index}")


def _encodable(document: Document, where: str) -> Document:
    """The document, if its texts can be encoded; else a `NotTextError` that starts with ``where``."""
    for name, text in (("id", document.id), ("title", document.title), ("text", document.text)):
        require_encodable(text, f"{where}: {name!r}")
    return document


def document_from_mapping(entry: Mapping[str, Any], default_id: str, where: str) -> Document:
    """Read one ``{"text", "id"|"_id"?, "title"?, "metadata"?}``; a whole number is accepted as an id.

    Raises:
        InputError: there is no text, both id keys are there, or the metadata is not a mapping.
        NotTextError: id, title or text is not a string, or not valid Unicode; messages start with ``where``.
    """
    if "text" not in entry:
        raise InputError(f"{where}: 'text' is missing; accepted: a string, which may be empty")
    given = [key for key in _ID_KEYS if key in entry]
    if len(given) > 1:
        raise InputError(f"{where}: holds both 'id' and '_id'; accepted: one of them")
    identity = entry[given[0]] if given else None
    if identity is None:
        identity = default_id
    elif isinstance(identity, int) and not isinstance(identity, bool):
        identity = str(identity)
    title = entry.get("title")
    metadata = entry.get("metadata")
    fields: dict[str, Any] = {"id": identity, "title": "" if title is None else title, "text": entry["text"]}
    for name, value in fields.items():
        if not isinstance(value, str):
            raise NotTextError(f"{where}: {name!r} must be a string, got {type(value).__name__} ({shown(value)})")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InputError(f"{where}: 'metadata' must be a mapping, got {type(metadata).__name__} ({shown(metadata)})")
    others = {key: value for key, value in entry.items() if key not in (*_ID_KEYS, "text", "title", "metadata")}
    return _encodable(Document(fields["id"], fields["text"], fields["title"], {**others, **(metadata or {})}), where)


def read_documents(paths: Iterable[str | Path]) -> list[Document]:
    """Read files into documents, in the order given.

    ``.jsonl`` holds one mapping per line (see `document_from_mapping`; an entry without an id gets
    ``file:line``), ``.txt`` is one document per file, ``.md`` and ``.markdown`` too, titled by their first heading.
    A folder gives its files of these kinds, below it as well, sorted by path, hidden ones left out. ``-``
    reads JSON lines from standard input.

    Raises:
        InputError: a path that does not exist or has another suffix, a folder without such files, a line
            that is not JSON (NaN and Infinity are not; the message names file and line), a file that is not
            UTF-8, text that is not valid Unicode.
        DuplicateIdsError: the same id twice, also by naming a file twice.
    """
    documents = [document for path in paths for document in _read(str(path))]
    check_unique_ids(documents)
    return documents


def _read(name: str) -> Iterator[Document]:
    if name == STDIN:
        yield from _json_lines(_decode(sys.stdin.buffer.read(), "standard input"), "stdin")
        return
    path = Path(name)
    if path.is_dir():
        found = [file for file in sorted(path.rglob("*")) if _readable(file, path)]
        if not found:
            raise InputError(f"folder {shown(name, 300)} holds no file of an accepted kind: {_ACCEPTED}")
        for file in found:
            yield from _READERS[file.suffix.lower()](_text(file), _name(file))
    elif path.suffix.lower() not in _READERS:
        raise InputError(
            f"cannot read {shown(name, 300)}: accepted are {_ACCEPTED}, a folder of them, or - for standard input"
        )
    else:
        yield from _READERS[path.suffix.lower()](_text(path), _name(path))


def _readable(file: Path, root: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(root).parts)
    return not hidden and file.suffix.lower() in _READERS and file.is_file()


def _name(path: Path) -> str:
    """The id of a document that is a whole file, and where its lines are; a name that is not Unicode is refused."""
    name = path.as_posix()
    require_encodable(name, f"the name of the file {shown(name, 300)}")
    return name


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {shown(str(path), 300)}: {error.strerror}") from None
    return _decode(data, shown(str(path), 300))


def _decode(data: bytes, what: str) -> str:
    """UTF-8 text without the mark some editors put at its start; line ends stay as they are."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{what} is not UTF-8 text: {error.reason} at byte {error.start}") from None


def _json_lines(text: str, name: str) -> Iterator[Document]:
    # Not splitlines(): a JSON string may hold U+2028 and other characters that it takes for line ends.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            entry = json.loads(line, parse_float=_finite, parse_constant=_finite)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not JSON ({error}); accepted: one JSON object per line") from None
        if not isinstance(entry, dict):
            raise InputError(f"{where}: must be a JSON object with 'text', got {type(entry).__name__}")
        document = document_from_mapping(entry, default_id=where, where=where)
        if "\\u" in line:  # only an escape can hold a lone surrogate
            require_encodable(json.dumps(document.metadata, ensure_ascii=False), f"{where}: 'metadata'")
        yield document


def _finite(literal: str) -> float:
    """A number of a JSON text that is not an integer; NaN, Infinity and what is out of a float's range are not JSON."""
    number = float(literal)
    if not math.isfinite(number):
        raise ValueError(f"{shown(literal)} is not a finite number")
    return number


def _plain(text: str, name: str) -> Iterator[Document]:
    yield Document(name, text)


def _markdown(text: str, name: str) -> Iterator[Document]:
    yield Document(name, text, title=_first_heading(text))


def _first_heading(text: str) -> str:
    """The text of the first ``# heading`` (any level) outside a code fence; "" where there is none."""
    fence = ""
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped.startswith(("```", "~~~")) and (not fence or stripped.startswith(fence)):
            fence = "" if fence else stripped[:3]
        elif not fence and line.startswith("#"):
            marks, _, heading = stripped.partition(" ")
            if heading and len(marks) <= 6 and not marks.strip("#"):
                return heading.strip().rstrip("#").rstrip()
    return ""


_READERS: dict[str, Callable[[str, str], Iterator[Document]]] = {
    ".jsonl": _json_lines,
    ".txt": _plain,
    ".md": _markdown,
    ".markdown": _markdown,
}
_ACCEPTED = ", ".join(_READERS)
