"""``rag ltr``: learn to rank from labelled collections, and what the scores are worth as probabilities."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli.judgements import show_judgements, write_judgements
from rag.cli.ltr_calibrate import calibrate
from rag.cli.ltr_options import Cache, Collections, Count, Folds, Json, Progress, Skip, loaded, versions
from rag.cli.options import Config, Model, load_settings
from rag.errors import InputError, shown

if TYPE_CHECKING:
    from rag.eval.ltr_training import Training

ltr_app = typer.Typer(no_args_is_help=True, help="Learning to rank (LambdaMART): train, eval, calibrate, list.")
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
    layers: Annotated[
        int | None, typer.Option(min=1, help="Choose heads of the lowest layers only; default: all.")
    ] = None,
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

    Prints nDCG@10 per collection: in folds (no query is ranked by trees that saw it), and with the collection left out
    of training, also without each group of features. Judge the written model on other queries only: `rag ltr eval`.
    """
    from rag.artefacts import EngineIdentity
    from rag.eval.ltr_data import Reader
    from rag.eval.ltr_fit import Plan
    from rag.eval.ltr_training import train_and_judge
    from rag.eval.progress import watching
    from rag.eval.training_sets import collect_features, training_data
    from rag.rerankers.ltr_artefact import LtrModel, digest
    from rag.rerankers.ltr_features import choose_groups, read_heads
    from rag.rerankers.ltr_trees import TreeParameters
    from rag.resources import load_engine

    groups = choose_groups(group)
    sources = loaded(collections, count, skip)
    settings = load_settings(config, model=model)
    engine = load_engine(settings)
    heads = [head for head in engine.all_heads() if layers is None or head.layer < layers]
    reader = Reader(engine, tuple(heads) if read_heads(groups) else ())
    lists = collect_features(sources, reader, settings, RETRIEVER, k, cache, watching(progress))
    parameters = TreeParameters(leaves=leaves, rows_per_leaf=rows_per_leaf, rounds=rounds)
    plan = Plan(reader.columns, groups, parameters)
    training = train_and_judge(lists, plan, folds, RETRIEVER)
    ranker, importance = training.ranker, training.ranker.trees.importance()
    LtrModel(
        groups=tuple(item.name for item in groups),
        features=ranker.trees.features,
        increasing=tuple(item.name for item in plan.features if item.increasing),
        engine=EngineIdentity.of(engine) if ranker.heads else None,
        heads=ranker.heads,
        retriever=RETRIEVER,
        k=k,
        data=training_data(sources),
        parameters=asdict(parameters) | {"heads": plan.keep},
        rounds=ranker.trees.rounds,
        figures=training.figures(),
        versions=versions(),
        digest=digest(ranker.trees.text),
        trees=ranker.trees.text,
    ).save(output)
    show_judgements(training.judged)
    typer.echo(f"heads: {' '.join(map(str, ranker.heads)) or 'none'}; {ranker.trees.rounds} trees; share of the gain:")
    typer.echo("; ".join(f"{name} {share:.3f}" for name, share in importance.items()))
    _warn(training)
    write_judgements(
        json_file, training.judged, importance=importance, rounds=ranker.trees.rounds, parameters=asdict(parameters)
    )
    typer.echo(str(output))


@ltr_app.command("eval")
def evaluate(
    collections: Collections,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="The model that `rag ltr train` wrote; default: shipped.")
    ] = None,
    count: Count = None,
    skip: Skip = 0,
    cache: Cache = None,
    model: Model = None,
    config: Config = None,
    json_file: Json = None,
    progress: Progress = True,
) -> None:
    """Compare a model's order with the order the candidates came in; queries it was trained on are refused."""
    from rag.eval.ltr_data import Reader
    from rag.eval.ltr_fit import Plan, Ranker
    from rag.eval.ltr_folds import as_they_came
    from rag.eval.ltr_training import judge_orders
    from rag.eval.progress import watching
    from rag.eval.training_sets import collect_features
    from rag.rerankers.ltr_artefact import LtrModel
    from rag.rerankers.ltr_trees import TreeParameters
    from rag.resources import load_engine

    sources = loaded(collections, count, skip)
    settings = load_settings(config, model=model)
    engine = load_engine(settings)
    artefact = LtrModel.choose(engine, file)
    for name, (_, source) in sources.items():
        known = artefact.trained_on({query.id: query.text for query in source.queries})
        if known:
            raise InputError(
                f"{name}: {len(known)} of {len(source.queries)} queries were trained on ({shown(known[0])}, ...): "
                "a model is judged on others"
            )
    reader = Reader(engine, artefact.heads)
    plan = Plan(reader.columns, artefact.feature_groups(), TreeParameters())
    ranker = Ranker(plan, artefact.heads, artefact.ranker())
    lists = collect_features(sources, reader, settings, artefact.retriever, artefact.k, cache, watching(progress))
    whole = [item for of in lists.values() for item in of]
    judged = judge_orders(lists, {artefact.retriever: as_they_came(whole), "lambdamart": ranker(whole)})
    show_judgements(judged)
    write_judgements(json_file, judged)


@ltr_app.command("list")
def list_models() -> None:
    """Show the models that ship with the package."""
    from rich.console import Console
    from rich.table import Table

    from rag.rerankers.ltr_artefact import shipped

    table = Table("model", "heads", "features", "trees", "learned from")
    for item in shipped():
        table.add_row(
            item.engine.model if item.engine else "any",
            " ".join(map(str, item.heads)),
            " ".join(item.groups),
            str(item.rounds),
            ", ".join(f"{source.collection} ({len(source.queries)})" for source in item.data),
        )
    Console().print(table)


def _warn(training: Training) -> None:
    for name, queries in training.without_relevant.items():
        if queries:
            names = ", ".join(map(shown, queries[:10])) + (", ..." if queries[10:] else "")
            typer.echo(
                f"warning: {name}: {len(queries)} queries have nothing relevant among their candidates and taught "
                f"nothing: {names}",
                err=True,
            )
