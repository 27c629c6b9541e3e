"""``rag results``: the page of measured figures from the records of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def results(
    records: Annotated[Path, typer.Argument(help="Folder of JSON records.")] = Path("docs/records"),
    output: Annotated[Path, typer.Option("--output", "-o", help="Page to write.")] = Path("docs/results.md"),
    template: Annotated[
        Path | None,
        typer.Option(help="Prose with record blocks. Default: template.md beside the records.", show_default=False),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail where the page is not what the records give.")
    ] = False,
) -> None:
    """Write the page of measured figures: prose from the template, every table from a record."""
    from rag.errors import ArtefactError, InputError
    from rag.eval.results_page import read_records, results_page

    source = template or records / "template.md"
    if not source.is_file():
        raise InputError(f"{source}: no such template")
    page = results_page(source.read_text(encoding="utf-8"), read_records(records))
    if not check:
        output.write_text(page, encoding="utf-8")
    elif not output.is_file() or output.read_text(encoding="utf-8") != page:
        raise ArtefactError(f"{output} is not what {records} and {source} give; write it with `rag results`")
