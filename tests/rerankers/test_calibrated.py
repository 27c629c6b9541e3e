"""Probabilities beside a real reranker's ranking, and when to say that nothing answers."""

from __future__ import annotations

import json

import pytest

from rag import registry
from rag.artefacts import EngineIdentity
from rag.config import StageSettings
from rag.errors import ArtefactError, ConfigError, InputError
from rag.rerankers import CalibratedReranker, HeadReranker
from rag.rerankers.calibration import IsotonicCurve, LogisticModel
from rag.rerankers.calibration_artefact import RelevanceModel, feature_names, identity, list_row
from rag.types import Document, Query, ScoredDocument

PASSAGES = (
    Document("deep", "The harbour is fourteen metres deep, so large ships can enter it at high tide."),
    Document("dunes", "Sand dunes move inland with the prevailing wind unless grass holds them."),
    Document("bread", "Rye bread keeps for a week because its crumb holds more water than that of wheat bread."),
)
QUERY = Query("How deep is the harbour?")


def candidates(cosines=(0.8, 0.1, 0.2)):
    return [
        ScoredDocument(document, score, rank, {} if cosine is None else {"dense": cosine})
        for rank, (document, score, cosine) in enumerate(zip(PASSAGES, (0.3, 0.2, 0.1), cosines, strict=True), start=1)
    ]


@pytest.fixture(scope="module")
def model(engine) -> RelevanceModel:
    """Half-way at a best cosine of 0.5, whatever the scores; relevance rises with the score up to 0.9."""
    names = feature_names(("dense",))
    return RelevanceModel(
        reranker=identity("heads", {"weight": 0.5}),
        engine=EngineIdentity.of(engine),
        retriever="fused",
        k=3,
        signals=("dense",),
        answerable=LogisticModel(
            features=names, means=(0, 0, 0, 0.5), scales=(1, 1, 1, 0.1), weights=(0, 0, 0, 1), bias=0
        ),
        relevant=IsotonicCurve(scores=(-1, 2), probabilities=(0.1, 0.9)),
        abstain_below=0.3,
        data=(),
        figures={},
        reliability={},
        versions={},
    )


@pytest.fixture
def file(model, tmp_path):
    model.save(tmp_path / "relevance.json")
    return tmp_path / "relevance.json"


def build(engine, file, name="heads", **options):
    reranker = {"name": name, "options": options}
    return registry.build(
        "reranker", "calibrated", {"file": str(file), "reranker": reranker}, {"engine": lambda: engine}
    )


def test_ranking_and_scores_are_the_other_reranker_s_and_relevance_falls_with_them(engine, file):
    ranked = build(engine, file, weight=0.5).rerank(QUERY, candidates())
    plain = HeadReranker(engine, weight=0.5).rerank(QUERY, candidates())
    assert [(i.document.id, i.score, i.rank) for i in ranked] == [(i.document.id, i.score, i.rank) for i in plain]
    relevance = [item.trace["relevance"] for item in ranked]
    assert relevance == sorted(relevance, reverse=True)
    answerable = ranked[0].trace["answerable"]
    assert answerable == pytest.approx(0.9526, abs=1e-4)  # 1 / (1 + exp(-3))
    assert 0 < relevance[-1] < relevance[0] <= 0.9 * answerable
    assert [item.trace["abstain"] for item in ranked] == [0, 0, 0]
    assert json.loads(json.dumps([dict(item.trace) for item in ranked]))


def test_a_list_that_answers_nothing_is_flagged_and_still_ranked(engine, file):
    ranked = build(engine, file, weight=0.5).rerank(QUERY, candidates((0.3, 0.1, None)))
    assert [item.trace["abstain"] for item in ranked] == [1, 1, 1]
    assert ranked[0].trace["relevance"] <= ranked[0].trace["answerable"] == pytest.approx(0.1192, abs=1e-4)


def test_documents_without_text_have_no_relevance(engine, file):
    empty = ScoredDocument(Document("empty", " "), 5.0, 4)
    *_, last = build(engine, file, weight=0.5).rerank(QUERY, [*candidates(), empty])
    assert (last.document.id, last.trace["relevance"], last.trace["abstain"]) == ("empty", 0.0, 0)
    (alone,) = build(engine, file, weight=0.5).rerank(QUERY, [empty])
    assert (alone.trace["relevance"], alone.trace["answerable"], alone.trace["abstain"]) == (0.0, 0.0, 1)
    assert build(engine, file, weight=0.5).rerank(QUERY, []) == []


def test_it_reads_what_the_other_reranker_reads(engine, file):
    assert build(engine, file, weight=0.5).spec == HeadReranker(engine).spec


def test_a_missing_signal_names_it_and_what_there_is(engine, file):
    with pytest.raises(InputError, match="no candidate has the signal 'dense' in its trace, which has heads"):
        build(engine, file, weight=0.5).rerank(QUERY, candidates((None, None, None)))


def test_calibrators_of_another_reranker_or_engine_are_refused(engine, file):
    with pytest.raises(ArtefactError, match=r"expected reranker .*'weight': 0.5.*, found .*'weight': 0.9"):
        build(engine, file, weight=0.9)
    with pytest.raises(ArtefactError, match=r"expected reranker .*heads.*, found .*icr"):
        CalibratedReranker(engine, file=file, reranker="icr")
    with pytest.raises(ConfigError, match="unknown reranker 'tea leaves'"):
        CalibratedReranker(engine, file=file, reranker=StageSettings(name="tea leaves"))
    content = json.loads(file.read_text())
    content["engine"]["fingerprint"] = "0000"
    file.write_text(json.dumps(content))
    with pytest.raises(ArtefactError, match=r"calibrated relevance .*: expected model 0000, found"):
        build(engine, file, weight=0.5)


def test_damaged_calibrators_are_refused(engine, file, tmp_path):
    content = json.loads(file.read_text())
    content["signals"] = ["bm25"]
    file.write_text(json.dumps(content))
    with pytest.raises(ArtefactError, match=r"expected list features top, .*best_bm25; found top, .*best_dense"):
        RelevanceModel.load(file)
    with pytest.raises(ArtefactError, match="does not hold calibrated relevance"):
        CalibratedReranker(engine, file=tmp_path / "absent.json")


def test_a_file_among_the_options_stands_for_its_content(tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("the same")
    first, second = (identity("lambdamart", {"model": tmp_path / name}) for name in ("a.json", "b.json"))
    assert first == second
    (tmp_path / "b.json").write_text("another")
    assert identity("lambdamart", {"model": tmp_path / "b.json"}) != first
    with pytest.raises(ArtefactError, match=r"absent.json cannot be read"):
        identity("lambdamart", {"model": tmp_path / "absent.json"})


def test_the_features_of_a_list_name_the_signals():
    row = list_row([2.0, 0.5], [{"dense": 0.1}, {"dense": 0.6}], ("dense",))
    assert list(row) == ["top", "margin", "entropy", "best_dense"]
    assert (row["margin"], row["best_dense"]) == (1.5, 0.6)
