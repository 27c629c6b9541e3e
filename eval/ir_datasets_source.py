"""Collections by their name in the ir_datasets catalogue (MacAvaney et al. 2021), an optional dependency.

The package downloads on first use what a name stands for, and asks for the licences that have to be accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rag.errors import ConfigError, InputError, shown
from rag.eval.collections import Collection, assemble
from rag.eval.runs import Qrels, add_judgement
from rag.types import Document, Query


def load_named(name: str) -> Collection:
    """The collection called ``name`` by ir_datasets (``beir/scifact/test``, ``msmarco-passage/trec-dl-2019/judged``).

    All its documents are held in memory: 8.8 million passages of MS MARCO take about 8 GB.

    Raises:
        ConfigError: the package is not installed.
        InputError: an unknown name, or one without documents, queries or judgements.
    """
    try:
        import ir_datasets
    except ImportError:
        raise ConfigError(
            "names of ir_datasets need the package ir-datasets: pip install 'rag-context[datasets]'"
        ) from None
    try:
        dataset = ir_datasets.load(name)
    except KeyError:
        raise InputError(f"ir_datasets knows no collection {shown(name)}") from None
    return from_dataset(dataset, name)


def from_dataset(dataset: Any, name: str) -> Collection:
    """A collection from a dataset object of ir_datasets: anything with its ``has_docs``, ``docs_iter`` and so on.

    A document's title is its field ``title``, its text the field ``text`` (else ``default_text()``). A query is its
    ``text`` (else ``query``, ``title`` or ``default_text()``).

    Raises:
        InputError: it has no documents, queries or judgements.
        DuplicateIdsError: two documents carry the same id.
    """
    missing = [kind for kind in ("docs", "queries", "qrels") if not getattr(dataset, f"has_{kind}")()]
    if missing:
        raise InputError(f"{shown(name)} of ir_datasets has no {', no '.join(missing)}; accepted: a name that has all")
    qrels: Qrels = {}
    for judged in dataset.qrels_iter():
        query, document = str(judged.query_id), str(judged.doc_id)
        add_judgement(qrels, query, document, str(judged.relevance), f"judgements of {name}")
    return assemble(name, _documents(dataset), _queries(dataset), qrels)


def _documents(dataset: Any) -> Iterator[Document]:
    for item in dataset.docs_iter():
        text = getattr(item, "text", None)
        title = getattr(item, "title", None) if text is not None else None
        yield Document(str(item.doc_id), item.default_text() if text is None else text, title or "")


def _queries(dataset: Any) -> Iterator[Query]:
    for item in dataset.queries_iter():
        fields = (getattr(item, name, None) for name in ("text", "query", "title"))
        text = next((field for field in fields if isinstance(field, str) and field.strip()), None)
        yield Query(item.default_text() if text is None else text, str(item.query_id))
