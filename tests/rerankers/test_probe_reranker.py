"""The default reranker with the real model on real text, and its artefact."""

from __future__ import annotations

import json
import random

import pytest

from rag.artefacts import EngineIdentity
from rag.attention.engine import AttentionEngine
from rag.attention.probe import HeadWeight, Probe, shipped
from rag.attention.types import Head
from rag.errors import ArtefactError, ConfigError
from rag.rerankers import ProbeReranker
from rag.rerankers.probe import signal
from rag.types import Document, Query, ScoredDocument

PASSAGES = (
    Document("deep", "The harbour is fourteen metres deep, so large container ships can enter it at high tide."),
    Document("dunes", "Sand dunes move inland with the prevailing wind unless grass holds them."),
    Document("lamp", "The lighthouse lamp burned whale oil until it was electrified in 1911."),
    Document("bread", "Rye bread keeps for a week because its crumb holds more water than that of wheat bread."),
    Document("blank", "  "),
)
QUERY = Query("How deep is the harbour?")


def candidates(documents, scores=None, notes=None):
    scores = scores or [0.0] * len(documents)
    notes = notes or [{} for _ in documents]
    return [ScoredDocument(d, s, r, n) for r, (d, s, n) in enumerate(zip(documents, scores, notes, strict=True), 1)]


def test_the_passage_that_answers_comes_first_and_everything_is_plain_data(engine):
    ranked = ProbeReranker(engine).rerank(QUERY, candidates(PASSAGES[::-1]))
    assert ranked[0].document.id == "deep"
    assert ranked[-1].document.id == "blank"
    assert sorted(item.document.id for item in ranked) == sorted(d.id for d in PASSAGES)
    assert json.loads(json.dumps([(item.score, dict(item.trace)) for item in ranked]))
    assert all(type(item.trace["attention"]) is float for item in ranked[:-1])


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_candidates_does_not_matter(engine, seed):
    notes = {d.id: {"bm25": float(n), "dense": 1.0 / (n + 1)} for n, d in enumerate(PASSAGES)}
    straight = ProbeReranker(engine).rerank(QUERY, candidates(PASSAGES, notes=[notes[d.id] for d in PASSAGES]))
    shuffled = list(PASSAGES)
    random.Random(seed).shuffle(shuffled)
    again = ProbeReranker(engine).rerank(QUERY, candidates(shuffled, notes=[notes[d.id] for d in shuffled]))
    assert [item.document.id for item in again] == [item.document.id for item in straight]
    assert [item.score for item in again] == pytest.approx([item.score for item in straight], abs=1e-4)


def test_what_the_retrievers_said_counts_and_a_document_that_one_did_not_find_is_its_worst():
    found = candidates(PASSAGES[:3], [3.0, 2.0, 1.0], [{"bm25": 7.5}, {"bm25": None, "dense": 0.2}, {"bm25": 2.5}])
    assert signal(found, "bm25").tolist() == [7.5, 2.5, 2.5]
    assert signal(found, "dense").tolist() == [0.2, 0.2, 0.2]
    assert signal(found, "splade").tolist() == [3.0, 2.0, 1.0]


def test_a_strong_enough_retrieval_score_decides(engine):
    alone = {item.document.id: item.score for item in ProbeReranker(engine).rerank(QUERY, candidates(PASSAGES[:4]))}
    with_score = ProbeReranker(engine).rerank(QUERY, candidates(PASSAGES[:4], [0.0, 0.0, 0.0, 1.0]))
    gain = {item.document.id: item.score - alone[item.document.id] for item in with_score}
    assert gain["bread"] > 0 > gain["deep"] == pytest.approx(gain["dunes"], abs=1e-3)


def probe_of(loaded, /, **changes):
    made = {
        "task": "document",
        "engine": EngineIdentity.of(loaded),
        "heads": (HeadWeight("best-token", Head(0, 1), 1.0),),
        "signals": {},
        "method": "by hand",
        "data": (),
    }
    return Probe(**made | changes)


def test_a_probe_of_ones_own_is_read_from_its_file(engine, tmp_path):
    path = tmp_path / "probe.json"
    probe_of(engine).save(path)
    assert Probe.load(path) == probe_of(engine)
    reranker = ProbeReranker(engine, probe=path)
    assert reranker.spec.heads == (Head(0, 1),)
    assert reranker.spec.calibrated is False


def test_a_document_that_the_best_one_names_by_its_title_rises(engine, tmp_path):
    """The second step of a question: it shares nothing with the question itself."""
    pages = (
        Document("journal", "The Harbour Review is published by the Society of Tides.", "Harbour Review"),
        Document("dunes", "Sand moves inland with the prevailing wind unless grass holds it.", "Sand dune"),
        Document("tides", "Ada Brine led it from 1871; gulls are its emblem.", "Society of Tides"),
    )
    query = Query("Who led what publishes the Harbour Review?")
    scores = {}
    for weight in (0.0, 2.0):
        path = tmp_path / f"{weight}.json"
        probe_of(engine, signals={"named-titles": weight}).save(path)
        ranked = ProbeReranker(engine, probe=path).rerank(query, candidates(pages))
        scores[weight] = {item.document.id: item.score for item in ranked}
    gain = {name: scores[2.0][name] - scores[0.0][name] for name in scores[0.0]}
    assert gain == pytest.approx({"tides": 2.0, "journal": 2.0, "dunes": 0.0}, abs=1e-3)


def test_a_probe_that_does_not_fit_is_refused_with_expected_and_found(engine, tmp_path):
    path = tmp_path / "probe.json"
    other = EngineIdentity.of(engine).model_copy(update={"fingerprint": "f00d"})
    for changes, message in (
        ({"engine": other}, "expected model f00d, found "),
        ({"task": "sentence"}, "expected task document, found sentence"),
        ({"heads": (HeadWeight("share", Head(0, 1), 1.0),)}, "expected statistics among best-token; found share"),
        ({"signals": {"bm25": 1.0, "shared-words": 1.0}}, "names or among named-titles; found shared-words, for sent"),
    ):
        probe_of(engine, **changes).save(path)
        with pytest.raises(ArtefactError, match=message):
            ProbeReranker(engine, probe=path)
    path.write_text("{}")
    with pytest.raises(ArtefactError, match="is not a probe"):
        ProbeReranker(engine, probe=path)


def test_where_no_probe_ships_the_known_models_are_named(engine):
    causal = AttentionEngine(engine.decoder, layout="causal")
    with pytest.raises(ConfigError, match=r"no document probe ships .* known: smollm2-135m"):
        ProbeReranker(causal)


def test_every_shipped_probe_says_what_it_was_learned_from():
    assert {item.task for item in shipped()} == {"document", "sentence"}
    for item in shipped():
        assert item.data
        assert all(source.queries for source in item.data)
        assert all(entry.weight > 0 for entry in item.heads)
