"""kNN relevance feedback on embeddings that can be worked out by hand."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.errors import ConfigError, DuplicateIdsError, InputError
from rag.retrievers import Dense
from rag.retrievers.feedback import knn_feedback
from rag.types import Document, Query, ScoredDocument

QUERY = Query("harbour")
TEXTS = {
    "port": "harbour quay",
    "oil": "lamp oil",
    "wick": "lamp wick",
    "blank": " ",
    "boats": "harbour boats",
}
CANDIDATES = [
    ScoredDocument(Document(id, text), 1 / r, r, {"bm25": 0.5}) for r, (id, text) in enumerate(TEXTS.items(), 1)
]


def ids(documents):
    return [item.document.id for item in documents]


def similarity(documents):
    return {item.document.id: item.trace["feedback"] for item in documents if "feedback" in item.trace}


def test_scores_are_sums_of_cosines_with_query_and_marked_documents(embedder):
    half, root = 0.5, 1 / math.sqrt(2)
    for options, expected in (
        ({}, {"port": root, "oil": 1.0, "wick": half, "boats": root}),
        ({"pool": "max"}, {"port": root, "oil": 1.0, "wick": half, "boats": root}),
        ({"examples": "query"}, {"port": root, "oil": 0.0, "wick": 0.0, "boats": root}),
        ({"examples": "feedback"}, {"port": 0.0, "oil": 1.0, "wick": half, "boats": 0.0}),
    ):
        found = knn_feedback(embedder, QUERY, CANDIDATES, ["oil"], k0=None, **options)
        assert similarity(found) == pytest.approx(expected, abs=1e-6)
    summed = knn_feedback(embedder, QUERY, CANDIDATES, ["port"], k0=None)
    assert similarity(summed) == pytest.approx({"port": root + 1, "oil": 0, "wick": 0, "boats": root + half}, abs=1e-6)
    assert [item.score for item in summed[:4]] == pytest.approx(sorted(similarity(summed).values(), reverse=True))


def test_what_resembles_a_marked_document_rises_and_the_incoming_order_has_its_say(embedder):
    alone = knn_feedback(embedder, QUERY, CANDIDATES, ["oil"], examples="feedback", k0=None)
    assert ids(alone) == ["oil", "wick", "port", "boats", "blank"]
    fused = knn_feedback(embedder, QUERY, CANDIDATES, ["oil"], examples="feedback")
    assert ids(fused) == ["oil", "port", "wick", "boats", "blank"]
    assert fused[0].score == pytest.approx(1 / 62 + 1 / 61)
    assert fused[1].score == pytest.approx(1 / 61 + 1 / 63)
    assert [item.rank for item in fused] == [1, 2, 3, 4, 5]
    assert {item.document.id: item.trace.get("feedback_rank") for item in fused} == {
        "oil": 1,
        "wick": 2,
        "port": 3,
        "boats": 4,
        "blank": None,
    }
    assert all(item.trace["bm25"] == 0.5 for item in fused)
    assert json.loads(json.dumps([(item.score, dict(item.trace)) for item in fused]))


def test_marked_documents_are_left_out_on_request(embedder):
    marks = {"relevant": {"oil"}, "not_relevant": {"boats", "blank"}}
    kept = knn_feedback(embedder, QUERY, CANDIDATES, **marks)
    left = knn_feedback(embedder, QUERY, CANDIDATES, **marks, exclude_marked=True)
    assert ids(left) == [name for name in ids(kept) if name in ("port", "wick")]
    assert [item.rank for item in left] == [1, 2]
    assert similarity(left)["wick"] == pytest.approx(0.5)
    assert {i.document.id: i.score for i in left}.items() <= {i.document.id: i.score for i in kept}.items()
    assert knn_feedback(embedder, QUERY, CANDIDATES, set(TEXTS), exclude_marked=True) == []


def test_the_best_window_of_a_long_document_is_compared(embedder):
    filler = "gulls circle over fish markets each day while people sleep "
    long = ScoredDocument(Document("long", filler + filler + "lamp oil " + filler), 0.1, 6)
    (found,) = [i for i in knn_feedback(embedder, QUERY, [*CANDIDATES, long], ["oil"]) if i.document.id == "long"]
    windows, _ = embedder.encode_windows([long.document.text])
    best = max(float(row @ embedder.encode(["lamp oil"])[0]) for row in windows)
    assert found.trace["feedback"] == pytest.approx(best, abs=1e-5)
    assert best > 0.3


def test_history_is_part_of_the_query(embedder):
    query = Query("harbour", history=("lamp oil",))
    found = knn_feedback(embedder, query, CANDIDATES, [], k0=None)
    assert ids(found)[0] == "oil"
    assert similarity(found)["oil"] == pytest.approx(2 / math.sqrt(6), abs=1e-6)


def test_after_a_retriever_with_the_real_embedder(minilm):
    from rag.models import Embedder

    embedder = Embedder(str(minilm.path))
    corpus = [
        Document("jaguar-car", "The Jaguar E-Type is a sports car built in Coventry."),
        Document("jaguar-cat", "The jaguar is a big cat that hunts in the rain forests of South America."),
        Document("leopard", "Leopards are large cats that climb trees with their prey."),
        Document("saloon", "The saloon car has a six-cylinder engine and leather seats."),
    ]
    (found,) = Dense(embedder).index(corpus).retrieve([Query("jaguar")], 4)
    cats = knn_feedback(embedder, Query("jaguar"), found, ["jaguar-cat"], exclude_marked=True, k0=None)
    cars = knn_feedback(embedder, Query("jaguar"), found, ["jaguar-car"], exclude_marked=True, k0=None)
    assert ids(cats).index("leopard") < ids(cats).index("saloon")
    assert ids(cars).index("saloon") < ids(cars).index("leopard")


@pytest.mark.parametrize(
    ("marks", "options", "error", "message"),
    [
        (["oil", "nil"], {"not_relevant": ["x"]}, InputError, "not among the 5 candidates: 'nil', 'x'"),
        (["oil"], {"not_relevant": ["oil"]}, InputError, "both relevant and not relevant: 'oil'"),
        ("oil", {}, InputError, r"relevant must be a collection of document ids, given one string \('oil'\)"),
        ([], {"examples": "feedback"}, InputError, "needs a document with text that is marked relevant, given none"),
        (["blank"], {"examples": "feedback"}, InputError, "needs a document with text"),
        ([], {"examples": "neither"}, ConfigError, "examples 'neither'; accepted: both, query, feedback"),
        ([], {"pool": "mean"}, ConfigError, "pool 'mean'; accepted: sum, max"),
        ([], {"k0": -1}, ConfigError, "k0 must be a finite number of at least 0.*given -1"),
    ],
)
def test_bad_marks_and_options_say_what_is_accepted(marks, options, error, message, embedder):
    with pytest.raises(error, match=message):
        knn_feedback(embedder, QUERY, CANDIDATES, marks, **options)


def test_two_candidates_of_one_id_are_refused(embedder):
    with pytest.raises(DuplicateIdsError, match="'port'"):
        knn_feedback(embedder, QUERY, [*CANDIDATES, CANDIDATES[0]], [])


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_nothing_is_lost_and_the_order_is_that_of_the_scores(make_embedder, data):
    words = st.lists(st.sampled_from(["lamp", "oil", "harbour", "boats", ""]), max_size=4).map(" ".join)
    texts = data.draw(st.lists(words, max_size=8))
    given_ = [ScoredDocument(Document(str(i), text), -i, i + 1) for i, text in enumerate(texts)]
    marks = data.draw(st.sets(st.sampled_from([str(i) for i in range(len(texts))]))) if texts else set()
    found = knn_feedback(make_embedder(), QUERY, given_, marks)
    assert sorted(ids(found)) == sorted(ids(given_))
    assert [item.rank for item in found] == list(range(1, len(texts) + 1))
    scores = [item.score for item in found]
    assert scores == sorted(scores, reverse=True)
    left = knn_feedback(make_embedder(), QUERY, given_, marks, exclude_marked=True)
    assert set(ids(left)) == set(ids(given_)) - marks
