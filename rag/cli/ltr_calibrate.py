"""``rag ltr calibrate``: probabilities for the scores of the configured reranker, and when to abstain."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli.ltr_options import (
    Cache,
    Collections,
    Count,
    Folds,
    Json,
    Progress,
    Skip,
    cell,
    loaded,
    versions,
)
from rag.cli.options import Config, Model, load_settings
from rag.errors import ConfigError, InputError, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rag.artefacts import TrainedOn
    from rag.attention.engine import AttentionEngine
    from rag.config import StageSettings
    from rag.eval.calibration_quality import HeldOut, Quality
    from rag.eval.collections import Collection

    Figures = Mapping[str, Mapping[str, HeldOut]]
    """What was held out, to the figures on each collection."""

FOLDS, COLLECTIONS = "folds of queries", "whole collections"


def calibrate(
    collections: Collections,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the calibrators go (JSON).")],
    count: Count = None,
    skip: Skip = 0,
    folds: Folds = 5,
    signal: Annotated[
        list[str] | None, typer.Option(help="Entry of the candidates' traces to use beside scores, repeatable.")
    ] = None,
    give_up: Annotated[
        float, typer.Option(min=0, max=0.99, help="Share of answerable queries that abstaining may give up.")
    ] = 0.05,
    plot: Annotated[Path | None, typer.Option(help="Draw the reliability diagrams here (PNG or SVG).")] = None,
    cache: Cache = None,
    model: Model = None,
    config: Config = None,
    json_file: Json = None,
    progress: Progress = True,
) -> None:
    """Fit relevance probabilities and an abstain threshold for the retriever and reranker of the settings.

    Every query is ranked twice: as it is, and with its relevant documents taken out of the corpus. All printed figures
    are of queries that were held out. Use the result with the reranker `calibrated`.
    """
    from rag import registry
    from rag.artefacts import EngineIdentity
    from rag.eval.calibration_quality import by_collection, by_fold, figures, hold_out
    from rag.eval.ltr_calibration import Calibrators, collect
    from rag.eval.progress import watching
    from rag.eval.training_sets import training_data
    from rag.rerankers.calibration_artefact import RelevanceModel, identity
    from rag.resources import Resources, load_engine

    settings = load_settings(config, model=model)
    stage = settings.reranker
    if stage is None:
        raise ConfigError("the settings have no reranker whose scores could be calibrated")
    made_for = identity(stage.name, stage.options)
    sources = loaded(collections, count, skip)
    engine = load_engine(settings)
    _refuse_trained(stage, engine, sources)
    resources = Resources(settings, engine)
    parts = {"engine": resources.engine, "embedder": resources.embedder}
    reranker = registry.build("reranker", stage.name, stage.options, parts)
    retriever = registry.build("retriever", settings.retriever.name, settings.retriever.options, parts)
    signals = tuple(signal or ("dense",))
    description = {
        "retriever": settings.retriever.model_dump(mode="json"),
        "reranker": made_for,
        "embedder": settings.embedder,
        "engine": engine.info(),
    }
    lists = [
        item
        for name, (split, source) in sources.items()
        for item in collect(
            source,
            retriever,
            reranker,
            settings.retrieve_k,
            signals,
            description={"split": split, **description},
            cache=cache and cache / f"{name}.{split}.scores.jsonl",
            watch=watching(progress),
        )
    ]
    held = {FOLDS: figures(hold_out(lists, by_fold(lists, folds)), give_up)}
    if len(sources) > 1:
        held[COLLECTIONS] = figures(hold_out(lists, by_collection), give_up)
    chosen = next(iter(held[FOLDS].values()))
    diagrams = {"answerable": chosen.answerable.diagram, "relevance": chosen.relevance.diagram}
    fitted = Calibrators.fit(lists)
    RelevanceModel(
        reranker=made_for,
        engine=EngineIdentity.of(engine),
        retriever=settings.retriever.name,
        k=settings.retrieve_k,
        signals=signals,
        answerable=fitted.answerable,
        relevant=fitted.relevant,
        abstain_below=chosen.threshold,
        data=training_data(sources),
        figures=_figures(chosen),
        reliability=diagrams,
        versions=versions(),
    ).save(output)
    _show(held)
    if plot:
        from rag.eval.reliability_plot import plot_reliability

        plot_reliability(diagrams, plot)
    if json_file:
        record = {
            "evaluation": "calibration",
            **description,
            "k": settings.retrieve_k,
            "signals": list(signals),
            "give_up": give_up,
            "collections": {name: {"split": of, "queries": len(by.queries)} for name, (of, by) in sources.items()},
            "held_out": [
                {"held_out": what, "collection": name, **asdict(of)}
                for what, by_name in held.items()
                for name, of in by_name.items()
            ],
        }
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    typer.echo(str(output))


def _refuse_trained(stage: StageSettings, engine: AttentionEngine, sources: dict[str, tuple[str, Collection]]) -> None:
    """A learned reranker is surer of queries it was trained on than of any other: these cannot calibrate it."""
    from rag.artefacts import seen

    data = _trained_on(stage, engine)
    for name, (_, source) in sources.items():
        if known := seen(data, {query.id: query.text for query in source.queries}):
            raise InputError(
                f"{name}: the reranker {stage.name} was trained on {len(known)} of {len(source.queries)} queries "
                f"({shown(known[0])}, ...): it is calibrated on others (`--skip`)"
            )


def _trained_on(stage: StageSettings, engine: AttentionEngine) -> Sequence[TrainedOn]:
    """The queries that the artefact of a reranker was learned from; none of one that has no such artefact."""
    from rag.attention.probe import Probe
    from rag.rerankers.ltr_artefact import LtrModel
    from rag.rerankers.probe import STATISTICS

    if stage.name == "probe":
        return Probe.choose(engine, "document", _file(stage, "probe"), frozenset(STATISTICS)).data
    if stage.name == "lambdamart":
        return LtrModel.choose(engine, _file(stage, "model")).data
    return ()


def _file(stage: StageSettings, option: str) -> Path | None:
    value = stage.options.get(option)
    return None if value is None else Path(value)


def _figures(held: HeldOut) -> dict[str, float]:
    """The figures that go into the file; both kinds of lists are there, so none of them is absent."""
    of: dict[str, Any] = {name: getattr(held, name) for name in ("threshold", "caught", "given_up")}
    for name, quality in (("answerable", held.answerable), ("relevance", held.relevance)):
        of |= {f"{name}_{key}": getattr(quality, key) for key in ("count", "base_rate", "auc", "brier", "ece")}
        of[f"{name}_brier_of_base_rate"] = quality.brier_of_base_rate
    return {name: round(value, 6) for name, value in of.items()}


def _show(held: Figures) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console() if Console().is_terminal else Console(width=160)
    console.print("answerable: the list holds something relevant; relevance: this document is.")
    console.print(
        "AUC, ECE and Brier: before calibration (scores read as log odds) -> after. base Brier: always saying the rate."
    )
    table = Table(
        "held out", "collection", "probability", "n", "base rate", "AUC", "ECE", "Brier", "base Brier", box=None
    )
    for what, by_name in held.items():
        for name, of in by_name.items():
            table.add_row(what, name, "answerable", *_cells(of.answerable_before, of.answerable))
            table.add_row(what, name, "relevance", *_cells(of.relevance_before, of.relevance))
    console.print(table)
    for what, by_name in held.items():
        for name, of in by_name.items():
            console.print(
                f"{what}, {name}: abstaining below {of.threshold:.3f} gives up {cell(of.given_up, '.1%')} of the lists "
                f"with an answer and catches {cell(of.caught, '.1%')} of those without",
                soft_wrap=True,
            )


def _cells(before: Quality, after: Quality) -> tuple[str, ...]:
    changes = ((getattr(before, name), getattr(after, name)) for name in ("auc", "ece", "brier"))
    return (
        str(after.count),
        cell(after.base_rate, ".3f"),
        *(f"{cell(old, '.3f')} -> {cell(new, '.3f')}" for old, new in changes),
        cell(after.brier_of_base_rate, ".3f"),
    )
