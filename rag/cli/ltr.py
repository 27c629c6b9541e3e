"""``rag ltr``: learn to rank from labelled collections, and what the scores are worth as probabilities."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli.ltr_calibrate import calibrate
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
from rag.errors import InputError, shown

if TYPE_CHECKING:
    from rag.eval.ltr_training import Training

ltr_app = typer.Typer(no_args_is_help=True, help="Learning to rank (LambdaMART): train, eval, calibrate.")
ltr_app.command()(calibrate)

RETRIEVER = "fused"


@ltr_app.command()
def train(
    collections: Collections,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes (JSON).")],
    count: Count = None,
    skip: Skip = 0,
    k: Annotated[int, typer.Option(min=2, help="Candidates per query.")] = 20,
    folds: Folds = 5,
    group: Annotated[
        list[str] | None, typer.Option(help="Feature group, repeatable: lexical, retrieval, ... Default: all.")
    ] = None,
    heads: Annotated[Path | None, typer.Option(help="Document heads (`rag heads detect`); default: shipped.")] = None,
    leaves: Annotated[int, typer.Option(min=2, help="Leaves of a tree.")] = 7,
    rows_per_leaf: Annotated[int, typer.Option(min=1, help="Fewest documents in a leaf.")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="Most trees.")] = 400,
    cache: Cache = None,
    model: Model = None,
    config: Config = None,
    json_file: Json = None,
    progress: Progress = True,
) -> None:
    """Fit LambdaMART to the candidates that the fused retriever finds for labelled queries.

    Prints nDCG@10 per fold (no query is ranked by trees that saw it) and per collection, also with the collection left
    out of training. Judge the written model on other queries only: `rag ltr eval`.
    """
    from rag.artefacts import EngineIdentity
    from rag.eval.ltr_data import Reader
    from rag.eval.ltr_training import train_and_judge
    from rag.eval.progress import watching
    from rag.eval.training_sets import collect_features, training_data
    from rag.rerankers.ltr_artefact import LtrModel, digest
    from rag.rerankers.ltr_features import choose_groups, features_of, specs_of
    from rag.rerankers.ltr_trees import TreeParameters
    from rag.resources import load_engine

    groups = choose_groups(group)
    features = features_of(groups)
    sources = loaded(collections, count, skip)
    settings = load_settings(config, model=model)
    engine = load_engine(settings)
    reads = any(item.spec for item in groups)
    reader = Reader(engine, groups, engine.choose_heads("document", heads) if reads else ())
    lists = collect_features(sources, reader, settings, RETRIEVER, k, cache, watching(progress))
    parameters = TreeParameters(leaves=leaves, rows_per_leaf=rows_per_leaf, rounds=rounds)
    training = train_and_judge(lists, features, parameters, folds)
    LtrModel(
        groups=tuple(item.name for item in groups),
        features=training.trees.features,
        increasing=tuple(item.name for item in features if item.increasing),
        engine=EngineIdentity.of(engine) if specs_of(groups, reader.heads) else None,
        heads=reader.heads,
        retriever=RETRIEVER,
        k=k,
        data=training_data(sources),
        parameters=asdict(parameters),
        rounds=training.trees.rounds,
        figures={name: round(value, 4) for name, value in training.figures().items()},
        versions=versions(),
        digest=digest(training.trees.text),
        trees=training.trees.text,
    ).save(output)
    _show_training(training)
    if json_file:
        record = {
            "folds": [asdict(row) for row in training.folds],
            "collections": [asdict(row) for row in training.collections],
            "importance": training.trees.importance(),
            "rounds": training.trees.rounds,
            "parameters": asdict(parameters),
        }
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    typer.echo(str(output))


@ltr_app.command("eval")
def evaluate(
    collections: Collections,
    file: Annotated[Path, typer.Option("--file", "-f", help="The model that `rag ltr train` wrote.")],
    count: Count = None,
    skip: Skip = 0,
    cache: Cache = None,
    model: Model = None,
    config: Config = None,
    json_file: Json = None,
    progress: Progress = True,
) -> None:
    """Compare a model's order with the order the candidates came in; queries it was trained on are refused."""
    from rich.console import Console
    from rich.table import Table

    from rag.eval.ltr_data import Reader
    from rag.eval.ltr_folds import score_all
    from rag.eval.ltr_training import judge
    from rag.eval.progress import watching
    from rag.eval.training_sets import collect_features
    from rag.rerankers.ltr_artefact import LtrModel
    from rag.resources import load_engine

    artefact = LtrModel.load(file)
    groups = artefact.feature_groups()
    sources = loaded(collections, count, skip)
    for name, (_, source) in sources.items():
        known = artefact.trained_on({query.id: query.text for query in source.queries})
        if known:
            raise InputError(
                f"{name}: {len(known)} of {len(source.queries)} queries were trained on ({shown(known[0])}, ...): "
                "a model is judged on others"
            )
    settings = load_settings(config, model=model)
    engine = load_engine(settings)
    trees = artefact.ranker(engine)
    reader = Reader(engine, groups, artefact.heads)
    lists = collect_features(sources, reader, settings, artefact.retriever, artefact.k, cache, watching(progress))
    rows = [judge(name, of, score_all(trees, of)) for name, of in lists.items()]
    table = Table("collection", "queries", "incoming", "lambdamart", "difference", "p", title="nDCG@10")
    for row in rows:
        difference = f"{row.lambdamart - row.incoming:+.4f}"
        table.add_row(
            row.collection, str(row.queries), cell(row.incoming), cell(row.lambdamart), difference, cell(row.p)
        )
    Console().print(table)
    if json_file:
        json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


def _show_training(training: Training) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    folds = Table("fold", "queries", "incoming", "lambdamart", title="nDCG@10 of each fold, trees of the others")
    for fold in training.folds:
        folds.add_row(str(fold.fold), str(fold.queries), cell(fold.incoming), cell(fold.lambdamart))
    console.print(folds)
    table = Table("collection", "order by", "nDCG@10", "p", title="Means; p of the difference from incoming")
    for row in training.collections:
        orders: list[tuple[str, float | None, float | None]] = [
            (name, value, None) for name, value in row.single.items()
        ]
        orders += [
            ("incoming", row.incoming, None),
            ("lambdamart, cross-validated", row.cross_validated, row.cross_validated_p),
            ("lambdamart of the other collections", row.left_out, row.left_out_p),
        ]
        for place, (name, value, p) in enumerate(orders):
            table.add_row("" if place else f"{row.collection}, {row.queries} queries", name, cell(value), cell(p))
        table.add_section()
    console.print(table)
    best = Table("feature", "share of the gain", title=f"{training.trees.rounds} trees of all the lists")
    for name, share in list(training.trees.importance().items())[:10]:
        best.add_row(name, cell(share, ".3f"))
    console.print(best)
    for row in training.collections:
        if row.without_relevant:
            names = ", ".join(map(shown, row.without_relevant[:10])) + (", ..." if row.without_relevant[10:] else "")
            typer.echo(
                f"warning: {row.collection}: {len(row.without_relevant)} queries have nothing relevant among their "
                f"candidates and taught nothing: {names}",
                err=True,
            )
