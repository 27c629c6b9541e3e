"""``rag heads``: find the heads of a model that carry relevance."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.errors import InputError

if TYPE_CHECKING:
    from rag.attention.detection import Floats, LabelledList
    from rag.attention.types import AttentionMap

heads_app = typer.Typer(no_args_is_help=True, help="Attention heads that carry relevance: detect, list.")


class Task(StrEnum):
    """What the heads are to rank."""

    document = "document"
    sentence = "sentence"


@heads_app.command()
def detect(
    sources: Annotated[
        list[Path], typer.Argument(help="BEIR folders (task document) or qa.jsonl files (task sentence) to learn from.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the head list goes (JSON).")],
    task: Annotated[Task, typer.Option(help="What the heads are to rank.")] = Task.document,
    split: Annotated[
        str, typer.Option(help="Which qrels of a BEIR folder to learn from: not one you judge on.")
    ] = "train",
    queries: Annotated[str | None, typer.Option(help="File of queries inside a BEIR folder.")] = None,
    model: Annotated[str, typer.Option(help="Model to look into.")] = "smollm2-135m",
    count: Annotated[int, typer.Option(min=1, help="Queries of each source, drawn at random (seed 1).")] = 80,
    candidates: Annotated[int, typer.Option(min=2, help="BM25 candidates per query (task document).")] = 10,
    keep: Annotated[int, typer.Option(min=1, help="How many heads to keep.")] = 6,
    layers: Annotated[int | None, typer.Option(min=1, help="Look at the lowest layers only.")] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Rank every head by the nDCG@10 that it gives alone, and write the best ones as a head list.

    Queries without anything relevant among their candidates are passed over: no head could show anything.
    """
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from rag.attention.detection import detect as find
    from rag.attention.engine import AttentionEngine
    from rag.attention.heads import HeadList

    if task is Task.document:
        found_in = [list(_document_lists(path, split, queries, candidates, count)) for path in sources]
    else:
        found_in = [list(_sentence_lists(path, count)) for path in sources]
    lists = [item for of in found_in for item in of]
    if not lists:
        raise InputError(f"{', '.join(map(str, sources))}: no query has anything relevant among its candidates")
    engine = AttentionEngine(model)
    console = Console(stderr=True)
    watched: Any = track(lists, "reading", console=console, disable=not progress)
    scored = find(engine, watched, _SCORERS[task], layers=layers)
    best = list(scored.items())[:keep]
    what = {
        Task.document: f"top {candidates} of BM25 on {split}",
        Task.sentence: "sentences of the given documents, label: supporting sentence",
    }[task]
    counts = ", ".join(f"{_name(path)}: {len(of)} queries" for path, of in zip(sources, found_in, strict=True))
    HeadList(
        model=model,
        fingerprint=engine.decoder.fingerprint,
        template=engine.template.digest(),
        layout=engine.layout,
        task=task.value,
        method=f"nDCG@10 of each head alone, calibrated; layers 0 to {(layers or engine.layers) - 1}",
        data=f"{counts}; {what}",
        heads=tuple(head for head, _ in best),
        scores=tuple(round(score, 4) for _, score in best),
    ).save(output)
    table = Table("head", "nDCG@10", title=f"{task.value} heads of {model}, {len(lists)} queries", title_justify="left")
    for head, score in best:
        table.add_row(str(head), f"{score:.4f}")
    console.print(table)
    typer.echo(str(output))


@heads_app.command("list")
def list_heads() -> None:
    """Show the head lists that ship with the package."""
    from rich.console import Console
    from rich.table import Table

    from rag.attention.heads import shipped

    table = Table("model", "task", "heads (layer-head)", "found on")
    for item in shipped():
        table.add_row(item.model, item.task, " ".join(map(str, item.heads)), item.data)
    Console().print(table)


def _name(path: Path) -> str:
    return path.name if path.is_dir() else path.parent.name


def _score_documents(answer: AttentionMap, _: LabelledList) -> Floats:
    from rag.rerankers.scores import head_scores

    scores: Floats = head_scores(answer).double().numpy()
    return scores


def _score_sentences(answer: AttentionMap, item: LabelledList) -> Floats:
    import numpy as np

    from rag.compressors.attention_scores import sentence_means
    from rag.rerankers.scores import calibrated_attention

    return np.concatenate(sentence_means(answer, item.sentences, calibrated_attention(answer).double().numpy()), axis=1)


_SCORERS = {Task.document: _score_documents, Task.sentence: _score_sentences}


def _document_lists(path: Path, split: str, queries: str | None, candidates: int, count: int) -> Iterator[LabelledList]:
    """Labelled candidate lists of the first ``count`` usable queries in a fixed random order."""
    from rag.attention.detection import LabelledList
    from rag.eval.collections import load_beir
    from rag.retrievers import BM25

    source = load_beir(path, split, queries=queries)
    retriever = BM25().index(source.documents)
    made = 0
    for query in _shuffled(sorted(source.queries, key=lambda query: query.id)):
        (found,) = retriever.retrieve([query], candidates)
        documents = tuple(item.document for item in found)
        gains = tuple(source.qrels[query.id].get(document.id, 0) for document in documents)
        if any(gain > 0 for gain in gains):
            yield LabelledList(query, documents, gains)
            made += 1
        if made == count:
            return


def _sentence_lists(path: Path, count: int) -> Iterator[LabelledList]:
    """The documents of a question cut into sentences; relevant is a sentence that overlaps a supporting one."""
    from rag.attention.detection import LabelledList
    from rag.eval.collections import load_qa
    from rag.sentences import sentences

    made = 0
    for question in _shuffled(sorted(load_qa(path), key=lambda item: item.query.id)):
        spans = tuple(sentences(document.text) if document.text.strip() else () for document in question.documents)
        marked: dict[str, list[tuple[int, int]]] = {}
        texts = {document.id: document.text for document in question.documents}
        for item in question.supporting_sentences:
            at = texts.get(item.document_id, "").find(item.text.strip())
            if at >= 0:
                marked.setdefault(item.document_id, []).append((at, at + len(item.text.strip())))
        gains = tuple(
            int(any(start < span.end - 1 and end > span.start for start, end in marked.get(document.id, ())))
            for document, of in zip(question.documents, spans, strict=True)
            for span in of
        )
        if any(gains):
            yield LabelledList(question.query, question.documents, gains, spans)
            made += 1
        if made == count:
            return


def _shuffled(items: Sequence[Any]) -> list[Any]:
    copy = list(items)
    random.Random(1).shuffle(copy)
    return copy
