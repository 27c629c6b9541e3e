"""The reranker over a tiny random cross-encoder: what it does around the model's numbers."""

from __future__ import annotations

import json

import pytest
from tiny_models import save_cross_encoder

from rag import Pipeline, registry
from rag.errors import ConfigError
from rag.models.cross_encoder import PairScorer
from rag.rerankers import CrossEncoderReranker
from rag.types import Document, Query, ScoredDocument

QUERY = Query("How deep is it?", history=("Tell me about the harbour.",))
FILLER = "Gulls circle over the fish market every morning. " * 30
DOCUMENTS = (
    Document("deep", "The harbour is fourteen metres deep.", title="Harbour"),
    Document("blank", " "),
    Document("long", FILLER + "The harbour is fourteen metres deep. " + FILLER),
    Document("bread", "Rye bread keeps for a week."),
)
CANDIDATES = [ScoredDocument(d, 1.0, r, {"bm25": 0.5}) for r, d in enumerate(DOCUMENTS, start=1)]


@pytest.fixture(scope="module")
def folder(minilm, tmp_path_factory):
    return str(save_cross_encoder(minilm.path, tmp_path_factory.mktemp("cross-encoder")))


def test_documents_are_ranked_by_the_scores_of_their_best_windows(folder):
    found = CrossEncoderReranker(folder).rerank(QUERY, CANDIDATES)
    texts = ["Harbour\n" + DOCUMENTS[0].text, DOCUMENTS[2].text, DOCUMENTS[3].text]
    pairs = PairScorer(folder).score("Tell me about the harbour. How deep is it?", texts)
    expected = {name: max(pairs.scores[pairs.owners == i]) for i, name in enumerate(("deep", "long", "bread"))}
    assert [item.document.id for item in found] == [*sorted(expected, key=expected.get, reverse=True), "blank"]
    assert [item.rank for item in found] == [1, 2, 3, 4]
    by_id = {item.document.id: item for item in found}
    for name, score in expected.items():
        assert by_id[name].score == pytest.approx(score, abs=1e-5)
        assert by_id[name].trace["cross-encoder"] == pytest.approx(score, abs=1e-5)
    windows = {name: by_id[name].trace["cross-encoder_windows"] for name in expected}
    assert windows["deep"] == windows["bread"] == 1
    assert windows["long"] == sum(pairs.owners == 1) > 5
    assert by_id["deep"].trace["bm25"] == 0.5
    assert json.loads(json.dumps([(item.score, dict(item.trace)) for item in found]))
    assert all(type(item.score) is float for item in found)


def test_the_mean_over_windows_is_another_score(folder):
    best, mean = (
        {
            item.document.id: item.score
            for item in CrossEncoderReranker(folder, over_windows=how).rerank(QUERY, CANDIDATES)
        }
        for how in ("max", "mean")
    )
    assert mean["deep"] == pytest.approx(best["deep"], abs=1e-5)
    assert mean["long"] < best["long"] - 1e-5


def test_in_a_pipeline(folder, smollm2):
    pipeline = Pipeline.from_config(
        retriever="bm25",
        reranker={"name": "cross-encoder", "options": {"model": folder, "device": "cpu"}},
        compressor=None,
        ordering=None,
        model=str(smollm2.path),
    )
    result = pipeline.run("How deep is the harbour?", DOCUMENTS[:1] + DOCUMENTS[3:])
    assert {item.id for item in result.results} == {"deep", "bread"}
    assert all(item.scores["cross-encoder"] == pytest.approx(item.score, abs=1e-5) for item in result.results)


def test_options_are_checked_before_any_model_is_loaded():
    for options, message in (
        ({}, "model: Field required"),
        ({"model": "x/y", "over_windows": "first"}, "over_windows: Input should be 'max' or 'mean'"),
        ({"model": "x/y", "batch_size": 0}, "batch_size must be at least 1, given 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            registry.build("reranker", "cross-encoder", options, {})
