"""What a probe is learned from and judged on: labelled lists of either task, their columns, baselines and measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from rag.artefacts import TrainedOn, query_digest
from rag.attention.heads import Task
from rag.errors import ConfigError, InputError
from rag.eval.collections import Question, load_qa
from rag.eval.folds import Fold
from rag.eval.ltr_folds import as_they_came, values
from rag.eval.probe_fit import Column, LabelledItems, LinearScore
from rag.eval.probe_training import Measure, Scores
from rag.eval.progress import watching
from rag.eval.training_sets import collect_features, load_collections, training_data

if TYPE_CHECKING:
    from rag.attention.engine import AttentionEngine
    from rag.attention.probe import Probe
    from rag.config import Settings


@dataclass(frozen=True, slots=True)
class ProbeData:
    """Lists by collection, what their columns are, other scores to compare with, and how scores are measured.

    ``queries`` maps the id of each query to its text, ``trained_on`` is what an artefact keeps of them, ``warnings``
    say what is odd about a collection.
    """

    lists: Mapping[str, Sequence[LabelledItems]]
    columns: tuple[Column, ...]
    baselines: Mapping[str, Scores]
    measures: Mapping[str, Measure]
    queries: Mapping[str, str]
    trained_on: tuple[TrainedOn, ...]
    warnings: tuple[str, ...] = ()


def read(
    task: Task,
    sources: Sequence[str],
    settings: Settings,
    engine: AttentionEngine,
    *,
    layers: int | None = None,
    count: int | None = None,
    skip: int = 0,
    k: int = 20,
    fold: str | None = None,
    held_out: bool = False,
    cache: Path | None = None,
    progress: bool = True,
) -> ProbeData:
    """Read the features of all labelled lists of ``sources``.

    Args:
        task: documents of BEIR folders, or sentences of QA files.
        sources: see `rag.eval.ltr_data.Source`, or paths of QA files.
        settings: which embedder is used.
        engine: reads attention.
        layers: the lowest layers are looked at; None for all.
        count: most queries of each source, in a fixed random order, after the first ``skip``.
        skip: see ``count``.
        k: candidates per query (documents).
        fold: i/n (sentences): the questions outside the fold, or those inside it if ``held_out``.
        held_out: see ``fold``.
        cache: a folder that keeps what was computed.
        progress: show a progress bar on standard error.

    Raises:
        InputError: sources that cannot be read, or without labelled queries; ``fold`` for documents.
    """
    depth = min(layers or engine.layers, engine.layers)
    if task == "document":
        if fold is not None:
            raise InputError(f"fold {fold} with task document; accepted: task sentence (or --count and --skip)")
        return _documents(sources, settings, engine, depth, count, skip, k, cache, progress)
    return _sentences(sources, settings, engine, depth, count, skip, fold, held_out, cache, progress)


def statistics(task: Task) -> frozenset[str]:
    """The statistics of heads that a probe of this task may weigh."""
    return frozenset(_stage(task).STATISTICS)


def _stage(task: Task) -> ModuleType:
    """Where the stage of a task says what it may weigh."""
    from rag.compressors import sentinel
    from rag.rerankers import probe

    return {"document": probe, "sentence": sentinel}[task]


def probe_score(probe: Probe, columns: Sequence[Column]) -> LinearScore:
    """A probe as a score over columns.

    Signals that are no columns follow from the rest (`rag.eval.probe_fit.LabelledItems.follow`).

    Raises:
        ConfigError: it weighs something that is neither.
    """
    place = {column: number for number, column in enumerate(columns)}
    wanted = {Column(item.statistic, item.head): item.weight for item in probe.heads}
    wanted |= {Column(name): weight for name, weight in probe.signals.items()}
    after = _stage(probe.task).FOLLOWING
    missing = [str(column) for column in wanted if column not in place and column.name not in after]
    if missing:
        raise ConfigError(f"the probe weighs {', '.join(missing)}, which the features lack")
    return LinearScore(
        {place[column]: weight for column, weight in wanted.items() if column in place},
        {column.name: weight for column, weight in wanted.items() if column not in place},
    )


def _documents(
    sources: Sequence[str],
    settings: Settings,
    engine: AttentionEngine,
    layers: int,
    count: int | None,
    skip: int,
    k: int,
    cache: Path | None,
    progress: bool,
) -> ProbeData:
    from rag.eval.probe_documents import DocumentReader, labelled

    collections = load_collections(sources, count, skip)
    reader = DocumentReader(engine, layers)
    found = collect_features(collections, reader, settings, "fused", k, cache, watching(progress))
    whole = [item for of in found.values() for item in of if item.documents]

    def measure(scores: Scores) -> Mapping[str, float]:
        return values(whole, scores)

    return ProbeData(
        {name: labelled(of, collections[name][1]) for name, of in found.items()},
        reader.columns,
        {"fused": as_they_came(whole)},
        {"nDCG@10": measure},
        {query.id: query.text for _, source in collections.values() for query in source.queries},
        training_data(collections),
        tuple(warning for _, source in collections.values() for warning in source.warnings),
    )


def _sentences(
    sources: Sequence[str],
    settings: Settings,
    engine: AttentionEngine,
    layers: int,
    count: int | None,
    skip: int,
    fold: str | None,
    held_out: bool,
    cache: Path | None,
    progress: bool,
) -> ProbeData:
    from rag.eval.probe_sentences import SentenceReader, areas, collect, recalls
    from rag.resources import Resources

    chosen = {_name(Path(text)): _questions(Path(text), count, skip, fold, held_out) for text in sources}
    if len(chosen) < len(sources):
        raise InputError(f"{', '.join(sources)}: two files have one name; accepted: names that differ")
    reader = SentenceReader(engine, layers, Resources(settings).embedder(), settings.embedder)
    found = {
        name: collect(
            name, questions, reader, cache=cache and cache / f"{name}.sentences.jsonl", watch=watching(progress)
        )
        for name, questions in chosen.items()
    }
    lists = [item for of in found.values() for item in of]
    if not lists:
        raise InputError(f"{', '.join(sources)}: no question has a supporting sentence")
    shuffled = np.random.default_rng(1)
    chance = {item.items.key: shuffled.random(len(item.tokens)) for item in lists}

    return ProbeData(
        {name: [item.items for item in of] for name, of in found.items()},
        reader.columns,
        {"chance": chance},
        {
            "recall at 20 % of the tokens": lambda scores: recalls(lists, scores),
            "AUC": lambda scores: areas(lists, scores),
        },
        {item.query.id: item.query.text for of in chosen.values() for item in of},
        tuple(
            TrainedOn(
                collection=name,
                split=f"without fold {fold}" if fold else "all",
                queries=tuple(query_digest(item.query.text) for item in of),
            )
            for name, of in chosen.items()
        ),
    )


def _questions(path: Path, count: int | None, skip: int, fold: str | None, held_out: bool) -> list[Question]:
    questions = sorted(load_qa(path), key=lambda item: query_digest(item.query.id))
    if fold is not None:
        inside, outside = Fold.parse(fold).split(questions, lambda item: item.query.id)
        questions = inside if held_out else outside
    return questions[skip:][:count]


def _name(path: Path) -> str:
    """A file called qa.jsonl is known by its folder."""
    stem = path.name.split(".")[0]
    return path.resolve().parent.name if stem == "qa" else stem
