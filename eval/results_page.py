"""The page of measured figures: prose from a template, tables from records.

The template is Markdown. A fenced block with the word ``record`` is YAML that names a record and how it is shown, and
the table stands in its place::

    ```record
    file: cranfield.json
    heading: Cranfield, 225 queries
    labels: {heads: heads (default)}
    ```

A block with ``collections`` in place of ``file`` is the table of methods (`rag.eval.results_methods`). Where a record
is not there yet, the block's ``pending`` stands for it.

A record that the template does not name is shown at the end, and one of a kind that has no view is listed there:
nothing that was measured is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rag.errors import InputError, RagError
from rag.eval.results_methods import files_of, methods
from rag.eval.results_views import VIEWS, kind_of
from rag.eval.runs import read_json

_BLOCK = re.compile(r"^```record[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def read_records(folder: Path) -> dict[str, Any]:
    """Every ``.json`` and ``.json.gz`` of a folder by name, sorted.

    Raises:
        InputError: no such folder, or a file that is not JSON.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    files = sorted(path for path in folder.iterdir() if path.name.removesuffix(".gz").endswith(".json"))
    return {path.name: read_json(path) for path in files}


def results_page(template: str, records: Mapping[str, Any]) -> str:
    """The page.

    Raises:
        InputError: a block that is not YAML, or names no record or one of a kind that has no view; the message has
            the template's line.
    """
    used: set[str] = set()

    def replaced(match: re.Match[str]) -> str:
        line = template.count("\n", 0, match.start()) + 1
        try:
            options = _options(match[1])
            names = [options["file"]] if "file" in options else files_of(options)
            used.update(names)
            return _text(names, records, options)
        except (RagError, KeyError, TypeError, ValueError, AttributeError) as error:
            problem = f"the record lacks {error}" if isinstance(error, KeyError) else str(error)
            raise InputError(f"template, line {line}: {problem}") from None

    page = _BLOCK.sub(replaced, template).rstrip("\n") + "\n"
    return page + _others({name: record for name, record in records.items() if name not in used})


def _options(text: str) -> dict[str, Any]:
    try:
        options = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(options, dict) or not ("collections" in options or isinstance(options.get("file"), str)):
        raise InputError("a record block is YAML with `file: NAME.json`, or `collections` for the table of methods")
    return options


def _text(names: Sequence[str], records: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """What stands in the place of a block that shows the records ``names``."""
    missing = [name for name in names if name not in records]
    if missing and "pending" not in options:
        raise InputError(f"no record {missing[0]!r}; there are: {', '.join(records) or 'none'}")
    pending = [str(options["pending"])] if missing else []
    if len(missing) == len(names):
        return "".join(pending)
    text = _shown(records[options["file"]], options) if "file" in options else methods(records, options)
    return "\n\n".join([text, *pending])


def _shown(record: Any, options: Mapping[str, Any]) -> str:
    kind = kind_of(record)
    if kind not in VIEWS:
        raise InputError(f"a record of kind {kind!r} has no view; there are: {', '.join(VIEWS)}")
    return VIEWS[kind](record, options)


def _others(records: Mapping[str, Any]) -> str:
    """Records that the template does not name: each with its table, or by name where there is no view of it."""
    if not records:
        return ""
    parts = ["\n## Further records\n"]
    without = []
    for name, record in records.items():
        try:
            text = _shown(record, {})
        except (RagError, KeyError, TypeError, ValueError, AttributeError, StopIteration):
            text = ""
        if text:
            parts.append(f"`{name}` ({kind_of(record)})\n\n{text}\n")
        else:
            without.append(f"- `{name}`: {kind_of(record)}")
    if without:
        parts.append("Without a table here:\n\n" + "\n".join(without) + "\n")
    return "\n".join(parts)
