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
    from rag.eval.collections import Collection
    from rag.eval.ltr_calibration import HeldOut, Quality


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
    from rag.eval.ltr_calibration import Calibrators, by_collection, by_fold, collect, hold_out
    from rag.eval.progress import watching
    from rag.eval.training_sets import training_data
    from rag.rerankers.calibration_artefact import RelevanceModel, identity
    from rag.resources import Resources, load_engine

    settings = load_settings(config, model=model)
    if settings.reranker is None:
        raise ConfigError("the settings have no reranker whose scores could be calibrated")
    made_for = identity(settings.reranker.name, settings.reranker.options)
    sources = loaded(collections, count, skip)
    _refuse_trained(settings.reranker.name, settings.reranker.options, sources)
    engine = load_engine(settings)
    resources = Resources(settings, engine)
    parts = {"engine": resources.engine, "embedder": resources.embedder}
    reranker = registry.build("reranker", settings.reranker.name, settings.reranker.options, parts)
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
    held = {"folds": hold_out(lists, by_fold(lists, folds), give_up)}
    if len(sources) > 1:
        held["collections"] = hold_out(lists, by_collection, give_up)
    chosen = held["folds"]
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
        reliability={"answerable": chosen.answerable.diagram, "relevance": chosen.relevance.diagram},
        versions=versions(),
    ).save(output)
    _show(held)
    if plot:
        from rag.eval.reliability_plot import plot_reliability

        plot_reliability({"answerable": chosen.answerable.diagram, "relevance": chosen.relevance.diagram}, plot)
    if json_file:
        record = {name: asdict(of) for name, of in held.items()}
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    typer.echo(str(output))


def _refuse_trained(name: str, options: dict[str, Any], sources: dict[str, tuple[str, Collection]]) -> None:
    """A LambdaMART model is surer of queries it was trained on than of any other: these cannot calibrate it."""
    if name != "lambdamart":
        return
    from rag.rerankers.ltr_artefact import LtrModel

    model = options.get("model")
    artefact = LtrModel.shipped() if model is None else LtrModel.load(Path(model))
    for source_name, (_, source) in sources.items():
        known = artefact.trained_on({query.id: query.text for query in source.queries})
        if known:
            raise InputError(
                f"{source_name}: the LambdaMART model was trained on {len(known)} of {len(source.queries)} queries "
                f"({shown(known[0])}, ...): it is calibrated on others (`--skip`)"
            )


def _figures(held: HeldOut) -> dict[str, float]:
    """The figures that go into the file."""
    of: dict[str, float] = {"threshold": held.threshold, "caught": held.caught, "given_up": held.given_up}
    for name, quality in (("answerable", held.answerable), ("relevance", held.relevance)):
        of |= {f"{name}_{key}": getattr(quality, key) for key in ("count", "base_rate", "brier", "ece")}
        of[f"{name}_brier_of_base_rate"] = quality.brier_of_base_rate
    return {name: round(value, 6) for name, value in of.items()}


def _show(held: dict[str, HeldOut]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("held out", "probability", "n", "base rate", "Brier", "base Brier", "ECE")
    for name, of in held.items():
        for what, quality in (("answerable", of.answerable), ("relevance", of.relevance)):
            table.add_row(name, what, *_cells(quality))
    console = Console()
    console.print(table)
    for name, of in held.items():
        console.print(
            f"{name}: abstaining below {of.threshold:.3f} gives up {of.given_up:.1%} of the queries with an answer "
            f"and catches {of.caught:.1%} of those without"
        )


def _cells(quality: Quality) -> tuple[str, ...]:
    return (
        str(quality.count), cell(quality.base_rate, ".3f"), cell(quality.brier), cell(quality.brier_of_base_rate),
        cell(quality.ece),
    )  # fmt: skip
