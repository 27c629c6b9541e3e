"""The words around documents and query. A template is data; its digest is part of every cache key and artefact."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """Wording of the listwise prompt: prefix, document blocks, then a suffix that holds the query.

    The prefix and the blocks never contain the query, so that a block's keys and values can be kept and
    used for every later query. ``stem`` is what comes before the query in the suffix: it is the same for
    all queries over the same documents. ``content_free`` replaces the query for calibration
    (Chen et al., ICLR 2025). The chat header of the model comes before the introduction; with
    ``close_turn`` its footer, up to the assistant's first token, comes after the query.

    The default puts the instruction before the documents and ends with the query: only the query's own rows
    carry relevance (the rows of the instruction and of the footer rank at chance on SmolLM2, SciFact train),
    and a row that is not needed is a row that need not be computed.
    """

    introduction: str = "Here are some paragraphs. Find those that are relevant to the query at the end.\n\n"
    title_end: str = "\n"
    document_end: str = "\n\n"
    stem: str = "Query:"
    query_start: str = " "
    content_free: str = "N/A"
    close_turn: bool = False

    def digest(self) -> str:
        """Short hash of the wording."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


DEFAULT_TEMPLATE = Template()

ICR_TEMPLATE = Template(
    introduction="Here are some paragraphs:\n\n",
    stem="Please find information that is relevant to the following query in the paragraphs above.\n\nQuery:",
    close_turn=True,
)
"""Instruction after the documents and an open assistant turn at the end, as in-context reranking was published."""
