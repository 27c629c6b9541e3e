"""The playground: one page at ``/`` to try the service on. Plain HTML, CSS and JS from this package, no build step."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources

from fastapi import APIRouter, Response

from rag.api.body import route_needing
from rag.api.errors import ApiError

_PAGE = "index.html"
_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

# The page shows text that others wrote. It is only ever set as text; should that fail, nothing foreign runs.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

router = APIRouter(route_class=route_needing(None), include_in_schema=False)


@router.get("/")
async def page() -> Response:
    """The page itself. It needs no key; what it asks of the service does."""
    return _file(_PAGE)


@router.get("/playground/example.json")
async def example() -> Response:
    """Questions and passages of the demo corpus, as the page's example."""
    return Response(_example(), media_type="application/json", headers=dict(HEADERS))


@router.get("/playground/{name}")
async def part(name: str) -> Response:
    """A script, the style sheet or the icon of the page; 404 for every other name."""
    if name not in _files() or name == _PAGE:
        known = ", ".join(sorted(file for file in _files() if file != _PAGE))
        raise ApiError(404, f"the playground has no such file; known: example.json, {known}")
    return _file(name)


def _file(name: str) -> Response:
    kind = _TYPES[name[name.rindex(".") :]]
    return Response(_files()[name], headers={**HEADERS, "Content-Type": kind})


@functools.cache
def _files() -> Mapping[str, bytes]:
    """Every file of the page by name: a name in a request is looked up here and never reaches the file system."""
    folder = resources.files(__name__) / "page"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(tuple(_TYPES))}


@functools.cache
def _example() -> bytes:
    """The demo's questions, and all passages of the articles that answer them."""
    from rag.demo_data import demo_corpus, demo_queries

    documents, queries = demo_corpus(), demo_queries()
    relevant = {name for query in queries for name in query["relevant"]}
    titles = {document.title for document in documents if document.id in relevant}
    shown = {
        "queries": [query["text"] for query in queries],
        "documents": [
            {"id": document.id, "title": document.title, "text": document.text}
            for document in documents
            if document.title in titles
        ],
    }
    return json.dumps(shown, ensure_ascii=False).encode()
