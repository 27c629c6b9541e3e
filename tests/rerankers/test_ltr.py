"""The lambdamart reranker and its artefact, with trees grown on the features that the real model gives."""

from __future__ import annotations

import json
import math
import random
from importlib import resources

import numpy as np
import pytest

from rag import registry
from rag.artefacts import EngineIdentity, TrainedOn, query_digest
from rag.attention.engine import AttentionEngine
from rag.attention.template import ICR_TEMPLATE
from rag.attention.types import AttentionSpec
from rag.config import Settings
from rag.errors import ArtefactError, ConfigError, ModelOutputError
from rag.pipeline import Pipeline
from rag.rerankers.ltr import LambdaMartReranker
from rag.rerankers.ltr_artefact import LtrModel, digest, shipped
from rag.rerankers.ltr_features import (
    FEATURE_GROUPS,
    Candidates,
    Feature,
    FeatureGroup,
    choose_groups,
    feature_table,
    features_of,
    head_features,
)
from rag.rerankers.ltr_trees import LabelledFeatures, TreeParameters, Trees, fit
from rag.types import Document, Query, ScoredDocument

PASSAGES = (
    Document("deep", "The harbour is fourteen metres deep, so large ships can enter it at high tide.", "Harbour"),
    Document("dunes", "Sand dunes move inland with the prevailing wind unless grass holds them."),
    Document("lamp", "The lighthouse lamp burned whale oil until it was electrified in 1911.", "Lighthouse"),
    Document("bread", "Rye bread keeps for a week because its crumb holds more water than that of wheat bread."),
)
QUESTIONS = {
    "deep": "How deep is the harbour?",
    "dunes": "What keeps sand dunes where they are?",
    "lamp": "When was the lamp of the lighthouse electrified?",
    "bread": "Why does rye bread keep for a week?",
}
TRACES = (
    {"bm25": 3.0, "bm25_rank": 1, "dense": 0.7, "dense_rank": 1},
    {"dense": 0.2, "dense_rank": 2},
    {},
    {"bm25": 1},
)


def candidates(documents=PASSAGES, traces=TRACES):
    scores = (0.4, 0.3, 0.2, 0.1)
    return [
        ScoredDocument(d, s, r, t) for r, (d, s, t) in enumerate(zip(documents, scores, traces, strict=True), start=1)
    ]


def table_of(question, given, heads, attender, groups=FEATURE_GROUPS):
    return feature_table(Candidates.read(Query(question), given, heads, attender), groups)


def columns(table, groups=FEATURE_GROUPS):
    return dict(zip((feature.name for feature in features_of(groups)), table.T, strict=True))


@pytest.fixture(scope="module")
def artefact(engine) -> LtrModel:
    """Trees over all groups, fitted to four questions in every rotation of the passages."""
    heads = engine.default_heads("document")
    lists = []
    for relevant, text in QUESTIONS.items():
        for turn in range(4):
            given = candidates(PASSAGES[turn:] + PASSAGES[:turn], ({},) * 4)
            values = table_of(text, given, heads, engine)
            grades = tuple(int(item.document.id == relevant) for item in given)
            lists.append(LabelledFeatures(f"{relevant}{turn}", values, grades))
    features = features_of(FEATURE_GROUPS)
    names, increasing = [f.name for f in features], [f.increasing for f in features]
    trees = fit(lists, names, increasing, TreeParameters(rounds=20, rows_per_leaf=2, l2=0.1))
    return LtrModel(
        groups=tuple(group.name for group in FEATURE_GROUPS),
        features=trees.features,
        increasing=tuple(f.name for f in features if f.increasing),
        engine=EngineIdentity.of(engine),
        heads=heads,
        retriever="fused",
        k=4,
        data=(TrainedOn(collection="village", split="train", queries=tuple(map(query_digest, QUESTIONS.values()))),),
        parameters={},
        rounds=trees.rounds,
        figures={},
        versions={},
        digest=digest(trees.text),
        trees=trees.text,
    )


@pytest.fixture
def file(artefact, tmp_path):
    artefact.save(tmp_path / "fusion.json")
    return tmp_path / "fusion.json"


def changed(file, **fields):
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))
    return file


def test_a_saved_model_ranks_a_new_question_and_leaves_plain_data(engine, file):
    reranker = registry.build("reranker", "lambdamart", {"model": str(file)}, {"engine": lambda: engine})
    given = candidates(PASSAGES[::-1])
    ranked = reranker.rerank(Query("Is the harbour deep enough for large ships?"), given)
    assert ranked[0].document.id == "deep"
    assert [item.rank for item in ranked] == [1, 2, 3, 4]
    assert ranked[0].trace["lambdamart"] == pytest.approx(ranked[0].score, abs=1e-4)
    assert json.loads(json.dumps([(item.score, dict(item.trace)) for item in ranked]))
    assert [item.document.id for item in given] == ["bread", "lamp", "dunes", "deep"]
    assert reranker.rerank(Query("Is the harbour deep enough for large ships?"), given) == ranked


def test_the_order_of_the_list_does_not_matter_and_empty_documents_come_last(engine, file):
    reranker = LambdaMartReranker(engine, model=file)
    given = candidates()
    scores = {item.document.id: item.score for item in reranker.rerank(Query("How deep?"), given)}
    random.Random(3).shuffle(given)
    empty = ScoredDocument(Document("empty", " "), 9.0, 5)
    again = reranker.rerank(Query("How deep?"), [empty, *given])
    assert again[-1].document.id == "empty"
    assert {item.document.id: item.score for item in again[:-1]} == pytest.approx(scores, abs=1e-6)


def test_one_document_is_ranked_and_none_gives_none(engine, file):
    reranker = LambdaMartReranker(engine, model=file)
    assert [item.rank for item in reranker.rerank(Query("How deep?"), candidates()[:1])] == [1]
    assert reranker.rerank(Query("How deep?"), []) == []


def test_the_model_that_ships_ranks_without_a_file_and_shares_the_pass_of_a_pipeline(engine):
    (ours,) = [item for item in shipped() if item.engine and item.engine.matches(engine)]
    assert digest(ours.trees) == ours.digest
    assert {source.collection for source in ours.data} == {"hotpotqa_train", "musique_train", "scifact"}
    ranked = LambdaMartReranker(engine).rerank(Query("How deep is the harbour?"), candidates(PASSAGES[::-1]))
    assert ranked[0].document.id == "deep"
    pipeline = Pipeline(Settings(reranker="lambdamart", retriever="bm25", top_n=1), engine=engine)
    result = pipeline.run("When was the lamp of the lighthouse electrified?", PASSAGES)
    assert result.results[0].id == "lamp"


def test_what_ships_is_small():
    sizes = [len(item.read_bytes()) for item in resources.files("rag").joinpath("data", "ltr").iterdir()]
    assert 0 < max(sizes) < 300_000


def test_no_model_ships_for_another_prompt_which_says_what_does(smollm2):
    other = AttentionEngine(str(smollm2.path), template=ICR_TEMPLATE)
    with pytest.raises(ConfigError, match=r"no LambdaMART model ships for .* known: smollm2-135m\. Train one"):
        LambdaMartReranker(other)


def test_the_table_takes_the_retrievers_word_from_the_trace_and_marks_what_is_missing(engine):
    table = columns(table_of("How deep is the harbour?", candidates(), engine.default_heads("document"), engine))
    assert table["bm25"][[0, 3]].tolist() == [1, -1]
    assert np.isnan(table["bm25"][[1, 2]]).all()
    assert table["bm25_rank"][0] == 1
    assert table["dense_rank"][1] == 0.5
    assert table["dense_cosine"][:2].tolist() == [0.7, 0.2]
    assert table["incoming_rank"].tolist() == [1, 1 / 2, 1 / 3, 1 / 4]
    assert table["late_interaction"].argmax() == 0
    assert (table["late_interaction_spread"] >= 0).all()


def test_a_document_that_the_first_ones_name_by_its_title_is_marked(engine):
    first = Document("first", "The lamp stands in the Lighthouse.", "Lamp")
    given = candidates((first, *PASSAGES[1:]))
    table = columns(table_of("What does the lamp stand in?", given, (), engine, choose_groups(["bridges"])),
                    choose_groups(["bridges"]))  # fmt: skip
    assert table["named_titles"].tolist() == [1, 0, 1, 0]


def test_heads_are_averaged_and_their_disagreement_is_noted():
    heads = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]])
    mean, spread = head_features(heads).T
    assert spread.tolist() == [0, 1, 1]
    assert mean.argsort().tolist() == [2, 1, 0]
    assert mean.mean() == pytest.approx(0)


def test_attention_is_read_once_and_only_where_a_group_asks_for_it(engine):
    class Counting:
        def __init__(self):
            self.specs: list[AttentionSpec] = []

        def attend(self, query, documents, spec):
            self.specs.append(spec)
            return engine.attend(query, documents, spec)

    counting = Counting()
    heads = engine.default_heads("document")
    table_of("How deep?", candidates(), (), counting, choose_groups(["lexical", "incoming"]))
    assert counting.specs == []
    table_of("How deep?", candidates(), heads, counting)
    assert counting.specs == [AttentionSpec(heads, ("all",))]


def test_a_value_that_is_no_number_names_document_and_feature():
    broken = FeatureGroup(
        "broken", (Feature("sound"), Feature("odd")), lambda _: np.array([[0.0, 1.0], [0.0, math.nan]])
    )
    two = Candidates(Query("q"), tuple(candidates()[:2]), np.empty((0, 2)))
    with pytest.raises(ModelOutputError, match="document 'dunes': feature 'odd' is nan"):
        feature_table(two, (broken,))
    optional = broken._replace(features=(Feature("sound"), Feature("odd", optional=True)))
    assert math.isnan(feature_table(two, (optional,))[1, 1])
    infinite = optional._replace(compute=lambda _: np.full((2, 2), math.inf))
    with pytest.raises(ModelOutputError, match="feature 'sound' is inf"):
        feature_table(two, (infinite,))


def test_unknown_groups_list_the_known_ones():
    with pytest.raises(ConfigError, match="given 'smell'; known: lexical, retrieval, incoming, bridges, attention"):
        choose_groups(["lexical", "smell"])
    with pytest.raises(ConfigError, match="given none"):
        choose_groups([])


def test_names_of_features_are_unique():
    names = [feature.name for feature in features_of(FEATURE_GROUPS)]
    assert len(set(names)) == len(names)


def test_a_model_for_another_prompt_is_refused(smollm2, file):
    other = AttentionEngine(str(smollm2.path), template=ICR_TEMPLATE)
    with pytest.raises(ArtefactError, match=r"LambdaMART model .*: expected prompt template \w+, found \w+"):
        LambdaMartReranker(other, model=file)


def test_a_model_for_another_llm_layout_or_feature_table_says_expected_and_found(engine, file):
    plain = json.loads(file.read_text())
    for field, problem in (("fingerprint", "expected model 0000, found"), ("layout", "expected layout 0000, found")):
        with pytest.raises(ArtefactError, match=problem):
            LambdaMartReranker(engine, model=changed(file, engine={**plain["engine"], field: "0000"}))
    changed(file, **plain)
    with pytest.raises(ArtefactError, match=r"expected features old, .*; found bm25_body"):
        LambdaMartReranker(engine, model=changed(file, features=["old", *plain["features"][1:]]))
    with pytest.raises(ArtefactError, match="'smell'; known: lexical"):
        LambdaMartReranker(engine, model=changed(file, features=plain["features"], groups=["smell"]))


def test_damaged_files_are_refused_before_lightgbm_reads_them(engine, file, tmp_path):
    # LightGBM's parser aborts the whole process on some of these.
    trees = json.loads(file.read_text())["trees"]
    for damaged in ("", trees[: len(trees) // 2], trees.replace("leaf_value=", "leaf_value=9", 1)):
        with pytest.raises(ArtefactError, match="expected trees of digest"):
            LtrModel.load(changed(file, trees=damaged))
    (tmp_path / "text.json").write_text("not json")
    for path in (tmp_path / "text.json", tmp_path / "absent.json"):
        with pytest.raises(ArtefactError, match="is not a LambdaMART model"):
            LambdaMartReranker(engine, model=path)
    with pytest.raises(ArtefactError, match="is not a LambdaMART model"):
        LtrModel.load(changed(file, format="rag.ltr/2"))


def test_a_model_without_attention_features_asks_nothing_of_the_engine(engine, artefact, tmp_path):
    groups = choose_groups(["incoming"])
    values = np.array([[1.0, 1.0], [0.0, 0.5], [-1.0, 0.3]])
    lists = [LabelledFeatures(str(i), values, (1, 0, 0)) for i in range(4)]
    trees = fit(lists, ["incoming", "incoming_rank"], [True, True], TreeParameters(rounds=5, rows_per_leaf=1))
    small = artefact.model_copy(
        update={
            "groups": ("incoming",), "features": trees.features, "engine": None, "heads": (),
            "trees": trees.text, "digest": digest(trees.text),
        }
    )  # fmt: skip
    assert small.feature_groups() == groups
    assert isinstance(small.ranker(), Trees)
    small.save(tmp_path / "small.json")
    reranker = LambdaMartReranker(engine, model=tmp_path / "small.json")
    assert reranker.spec is None
    assert reranker.rerank(Query("How deep?"), candidates())[0].document.id == "deep"


def test_queries_that_were_trained_on_are_known_whatever_their_case_and_spaces(artefact):
    asked = {"a": "how  DEEP is the harbour?", "b": "How deep is the river?"}
    assert artefact.trained_on(asked) == ("a",)
