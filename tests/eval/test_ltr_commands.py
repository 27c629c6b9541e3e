"""``rag ltr`` as a user calls it, on the demo corpus with the real models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from demo_beir import write_demo
from typer.testing import CliRunner

from rag.artefacts import TrainedOn, query_digest
from rag.attention.probe import shipped as shipped_probes
from rag.cli.app import app
from rag.errors import ArtefactError, ConfigError, InputError
from rag.eval.results_views import VIEWS, kind_of
from rag.pipeline import Pipeline
from rag.rerankers.calibration_artefact import RelevanceModel
from rag.rerankers.ltr_artefact import LtrModel


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Path:
    """The demo corpus with all its questions, as a BEIR folder: their passages and ten others."""
    return write_demo(tmp_path_factory.mktemp("village"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


def run(*arguments: object):
    return CliRunner().invoke(app, ["ltr", *map(str, arguments)])


@pytest.fixture(scope="module")
def trained(collection, cache, tmp_path_factory):
    """The file of a model of the first five questions, and what the command printed and wrote."""
    output, figures = tmp_path_factory.mktemp("made") / "fusion.json", cache / "figures.json"
    command = (
        "train", f"{collection}:test", "-o", output, "--count", 5, "--k", 4, "--folds", 3, "--rows-per-leaf", 1,
        "--rounds", 10, "--layers", 9, "--cache", cache, "--json", figures, "--no-progress",
    )  # fmt: skip
    done = run(*command)
    assert done.exit_code == 0, (done.output, done.exception)
    return command, output, done.output, json.loads(figures.read_text())


def test_training_writes_a_model_with_its_provenance_and_shows_what_it_is_worth(trained, collection):
    _, output, printed, figures = trained
    model = LtrModel.load(output)
    assert model.engine is not None
    assert model.engine.model == "smollm2-135m"
    assert (model.retriever, model.k, len(model.data[0].queries)) == ("fused", 4, 5)
    assert model.heads
    assert all(head.layer < 9 for head in model.heads)
    (row,) = figures["nDCG@10"]
    means = {order["name"]: order["mean"] for order in row["orders"]}
    assert (row["collection"], row["lists"]) == (collection.name, 5)
    assert list(means) == ["fused", "bm25", "dense", "lambdamart, 3 folds"]
    assert f"{means['fused']:.4f}" in printed
    assert model.figures[f"{collection.name}: fused"] == pytest.approx(means["fused"], abs=1e-4)
    assert sum(figures["importance"].values()) == pytest.approx(1) or figures["rounds"] == 1


def test_training_again_reads_the_cache_and_gives_the_same_trees(trained, cache):
    command, output, *_ = trained
    (file,) = cache.glob("*.features.jsonl")
    before, trees = file.read_bytes(), LtrModel.load(output).trees
    assert len(before.splitlines()) == 1 + 5
    assert run(*command).exit_code == 0
    assert file.read_bytes() == before
    assert LtrModel.load(output).trees == trees
    file.write_bytes(before[: before.rindex(b"{") + 40])  # interrupted in the last line
    assert run(*command).exit_code == 0
    again = file.read_bytes().splitlines()
    assert again[:-1] == before.splitlines()[:-1]
    assert len(again) == 1 + 5
    fewer = run(*command, "--group", "retrieval", "--group", "attention")
    assert fewer.exit_code == 0, (fewer.output, fewer.exception)
    assert LtrModel.load(output).groups == ("retrieval", "attention")
    assert file.read_bytes().splitlines() == again
    failed = run(*command, "--group", "lexical")
    assert isinstance(failed.exception, ArtefactError)
    assert "holds results of {'features'" in str(failed.exception)


def test_a_model_is_judged_on_other_queries_only(trained, collection, tmp_path):
    _, output, *_ = trained
    figures = tmp_path / "judged.json"
    done = run("eval", f"{collection}:test", "-f", output, "--skip", 5, "--json", figures, "--no-progress")
    assert done.exit_code == 0, (done.output, done.exception)
    (row,) = json.loads(figures.read_text())["nDCG@10"]
    assert row["lists"] == 1
    assert [order["name"] for order in row["orders"]] == ["fused", "lambdamart"]
    assert 0 <= row["orders"][1]["mean"] <= 1
    refused = run("eval", f"{collection}:test", "-f", output, "--no-progress")
    assert isinstance(refused.exception, InputError)
    assert "5 of 6 queries were trained on" in str(refused.exception)


def test_a_collection_left_out_is_judged_without_each_group_too(tmp_path):
    folders = [tmp_path / name for name in ("village", "town")]
    for folder in folders:
        folder.mkdir()
    sources = [f"{write_demo(folder)}:test" for folder in folders]
    figures = tmp_path / "figures.json"
    done = run(
        "train", *sources, "-o", tmp_path / "fusion.json", "--count", 4, "--k", 3, "--folds", 3, "--rows-per-leaf", 1,
        "--rounds", 5, "--group", "retrieval", "--group", "incoming", "--json", figures, "--no-progress",
    )  # fmt: skip
    assert done.exit_code == 0, (done.output, done.exception)
    assert LtrModel.load(tmp_path / "fusion.json").engine is None
    for row in json.loads(figures.read_text())["nDCG@10"]:
        assert [(order["name"], order["p"] is None) for order in row["orders"]][3:] == [
            ("lambdamart, 3 folds", False),
            ("lambdamart of the other collections", False),
            ("the same without retrieval", False),
            ("the same without incoming", False),
        ]


def test_what_ships_is_listed_and_judged_without_a_file(collection):
    listed = run("list")
    assert listed.exit_code == 0, listed.exception
    assert "smollm2" in listed.output
    judged = run("eval", f"{collection}:test", "--count", 1, "--no-progress")
    assert judged.exit_code == 0, (judged.output, judged.exception)
    assert "lambdamart" in judged.output


def test_calibrated_relevance_is_made_drawn_and_used_in_a_pipeline(collection, cache, tmp_path):
    settings, output, plot = tmp_path / "settings.yaml", tmp_path / "relevance.json", tmp_path / "diagram.png"
    record = tmp_path / "calibration.json"
    settings.write_text("retrieve_k: 3")
    done = run(
        "calibrate", f"{collection}:test", "-o", output, "-c", settings, "--count", 4, "--folds", 3, "--give-up", 0,
        "--cache", cache, "--plot", plot, "--json", record, "--no-progress",
    )  # fmt: skip
    assert done.exit_code == 0, (done.output, done.exception)
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "abstaining below" in done.output
    model = RelevanceModel.load(output)
    assert model.figures["answerable_count"] == 8
    assert model.figures["given_up"] == 0
    assert model.answerable.features == ("top", "margin", "entropy", "best_dense")
    (file,) = cache.glob("*.scores.jsonl")
    kinds = [line["kind"] for line in map(json.loads, file.read_text().splitlines()[1:])]
    assert kinds == ["as it is", "without answers"] * 4
    figures = json.loads(record.read_text())
    assert figures["reranker"]["name"] == "probe"
    (held,) = figures["held_out"]
    assert (held["held_out"], held["collection"]) == ("folds of queries", collection.name)
    assert held["answerable"]["auc"] == pytest.approx(model.figures["answerable_auc"], abs=1e-6)
    assert f"| {collection.name} | answerable | 8 |" in VIEWS[kind_of(figures)](figures, {})
    pipeline = Pipeline.from_config(
        retrieve_k=3, top_n=2, reranker={"name": "calibrated", "options": {"file": str(output), "reranker": "probe"}}
    )
    texts = [json.loads(line)["text"] for line in (collection / "corpus.jsonl").read_text().splitlines()]
    (first, *_) = pipeline.run("What is the cleared land in the Amazon used for?", texts).results
    assert 0 < first.scores["relevance"] <= first.scores["answerable"] < 1
    assert first.scores["abstain"] in (0, 1)


def test_a_reranker_is_not_calibrated_on_what_it_was_trained_on(trained, collection, tmp_path):
    _, output, *_ = trained
    settings = tmp_path / "settings.yaml"
    command = ("calibrate", f"{collection}:test", "-o", tmp_path / "r.json", "-c", settings, "--no-progress")
    settings.write_text(yaml.safe_dump({"reranker": {"name": "lambdamart", "options": {"model": str(output)}}}))
    failed = run(*command)
    assert isinstance(failed.exception, InputError)
    assert "lambdamart was trained on 5 of 6 queries" in str(failed.exception)
    asked = [json.loads(line)["text"] for line in (collection / "queries.jsonl").read_text().splitlines()]
    (shipped,) = [probe for probe in shipped_probes() if probe.task == "document"]
    learned = TrainedOn(collection="village", split="test", queries=tuple(map(query_digest, asked[:2])))
    shipped.model_copy(update={"data": (*shipped.data, learned)}).save(tmp_path / "probe.json")
    options = {"probe": str(tmp_path / "probe.json")}
    settings.write_text(yaml.safe_dump({"reranker": {"name": "probe", "options": options}}))
    assert "probe was trained on 2 of 6 queries" in str(run(*command).exception)
    settings.write_text("reranker: null")
    assert isinstance(run(*command).exception, ConfigError)


def test_unusable_collections_are_refused_before_any_model_is_loaded(collection, tmp_path):
    for argument, problem in (
        (f"{collection}:", "accepted: FOLDER, FOLDER:SPLIT or FOLDER:SPLIT:QUERIES"),
        (f"{collection}:train", "train.tsv"),
        (tmp_path / "absent", "absent"),
    ):
        failed = run("train", argument, "-o", tmp_path / "x.json")
        assert isinstance(failed.exception, InputError), argument
        assert problem in str(failed.exception)
    twice = run("train", f"{collection}:test", f"{collection}:test", "-o", tmp_path / "x.json")
    assert "accepted: each once" in str(twice.exception)
    nothing = run("train", f"{collection}:test", "--skip", 99, "-o", tmp_path / "x.json")
    assert "first 99 are skipped" in str(nothing.exception)
    unknown = run("train", f"{collection}:test", "--group", "smell", "-o", tmp_path / "x.json")
    assert isinstance(unknown.exception, ConfigError)
