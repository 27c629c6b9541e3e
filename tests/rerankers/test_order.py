"""The order of the candidates: no matter in the block layout, measured and averaged out in the causal one."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from rag import registry
from rag.attention.decoder import Decoder
from rag.attention.engine import AttentionEngine
from rag.attention.shared import SharedPass
from rag.errors import ConfigError, InputError
from rag.rerankers.order import kendall_tau, order_stability, shuffled, stability
from rag.types import Document, Query, ScoredDocument

QUERY = Query("How deep is the harbour?")
TEXTS = (
    "The harbour is fourteen metres deep, so large container ships can enter it at high tide.",
    "Sand dunes move inland with the prevailing wind unless grass holds them.",
    "The lighthouse lamp burned whale oil until it was electrified in 1911.",
    "Rye bread keeps for a week because its crumb holds more water than that of wheat bread. " * 8,
    "Gulls nest on the wall of the harbour.",
)
CANDIDATES = [ScoredDocument(Document(str(i), text), 1.0 / (i + 1), i + 1) for i, text in enumerate(TEXTS)]
SOME = [[0, 1], [2, 3], [3, 0]]
RERANKERS = {
    "icr": {},
    "heads": {"heads": SOME},
    "reattn": {"heads": SOME},
    "attention-sorting": {},
    "found-in-the-middle": {},
    "found-in-the-middle, filler": {"bias": "document"},
    "blockrank": {},
    "permutation-average": {"permutations": 2},
}


def make(label, engine):
    return registry.build("reranker", label.partition(",")[0], RERANKERS[label], {"engine": lambda: engine})


def scores(ranked):
    return {item.document.id: item.score for item in ranked}


@pytest.fixture(scope="module")
def decoder(smollm2) -> Decoder:
    return Decoder(tiny.decoder("llama"), AutoTokenizer.from_pretrained(smollm2.path), "tiny", "")


@pytest.fixture(scope="module")
def block(decoder) -> AttentionEngine:
    return AttentionEngine(decoder, split=tiny.split_words, window_tokens=96, overlap_tokens=8)


@pytest.fixture(scope="module")
def causal(decoder) -> AttentionEngine:
    return AttentionEngine(decoder, layout="causal", split=tiny.split_words, window_tokens=96, overlap_tokens=8)


@pytest.mark.parametrize("label", RERANKERS)
@settings(max_examples=6, deadline=None)
@given(order=st.permutations(range(len(TEXTS))))
def test_in_the_block_layout_every_order_gives_the_same_ranking(label, block, order):
    reranker = make(label, block)
    straight = reranker.rerank(QUERY, CANDIDATES)
    again = reranker.rerank(QUERY, [CANDIDATES[i] for i in order])
    assert [item.document.id for item in again] == [item.document.id for item in straight]
    spread = straight[0].score - straight[-1].score
    assert spread > 0
    assert scores(again) == pytest.approx(scores(straight), abs=1e-4 * spread)
    assert sorted(item.rank for item in again) == [1, 2, 3, 4, 5]


def test_stability_tells_the_layouts_apart(block, causal):
    same, different = (order_stability(make("icr", engine), QUERY, CANDIDATES) for engine in (block, causal))
    assert (same.mean_tau, same.worst_tau, same.same_first, same.orders) == (1.0, 1.0, 1.0, 5)
    assert -1 <= different.worst_tau < different.mean_tau < 1


def test_the_average_over_orders_and_what_its_trace_says(block, causal):
    for engine, agree in ((block, True), (causal, False)):
        inner = make("icr", engine)
        average = registry.build(
            "reranker", "permutation-average", {"permutations": 3, "seed": 4}, {"engine": lambda engine=engine: engine}
        )
        assert average.spec == inner.spec
        ranked = average.rerank(QUERY, CANDIDATES)
        columns = [
            [scores(inner.rerank(QUERY, order))[item.document.id] for item in CANDIDATES]
            for order in shuffled(CANDIDATES, 3, 4)
        ]
        runs = np.array(columns)
        standard = (runs - runs.mean(1, keepdims=True)) / runs.std(1, keepdims=True)
        expected = {str(i): value for i, value in enumerate(standard.mean(0).tolist())}
        assert scores(ranked) == pytest.approx(expected, abs=1e-4)
        (tau,) = {item.trace["kendall_tau"] for item in ranked}
        assert tau == pytest.approx(stability(runs).mean_tau)
        assert (tau == 1.0) is agree


def test_a_shared_pass_of_one_order_does_not_stand_in_for_the_others(causal):
    reranker = make("permutation-average", causal)
    shared = SharedPass(causal, QUERY, [reranker.spec])
    assert scores(reranker.rerank(QUERY, CANDIDATES, attender=shared)) == scores(reranker.rerank(QUERY, CANDIDATES))
    assert shared.count.passes == 1


def test_the_wrapped_reranker_is_configured_like_any_other(block):
    parts = {"engine": lambda: block}
    options = {"reranker": {"name": "heads", "options": {"heads": SOME, "weight": None}}}
    alone = registry.build("reranker", "heads", options["reranker"]["options"], parts)
    wrapped = registry.build("reranker", "permutation-average", options, parts)
    assert scores(wrapped.rerank(QUERY, CANDIDATES)) == pytest.approx(scores(alone.rerank(QUERY, CANDIDATES)), abs=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"permutations": 0}, "1 or more, given 0"),
        ({"reranker": "nope"}, "unknown reranker 'nope'; known: .*icr"),
        ({"reranker": {"name": "icr", "options": {"weight": 1}}}, "accepted options: heads"),
    ],
)
def test_what_cannot_be_averaged_is_refused(options, message, block):
    with pytest.raises(ConfigError, match=message):
        registry.build("reranker", "permutation-average", options, {"engine": lambda: block})


def test_the_given_order_is_the_first_and_a_seed_gives_the_same_again():
    orders = shuffled(CANDIDATES, 4, 7)
    assert orders[0] == CANDIDATES
    assert orders == shuffled(CANDIDATES, 4, 7) != shuffled(CANDIDATES, 4, 8)
    assert all(sorted(item.document.id for item in order) == list("01234") for order in orders)
    assert shuffled([], 2, 0) == [[], []]
    with pytest.raises(InputError, match="1 or more, given 0"):
        shuffled(CANDIDATES, 0, 0)


@settings(deadline=None)  # the first call loads scipy
@given(st.lists(st.integers(-5, 5), min_size=2, max_size=8, unique=True), st.randoms())
def test_kendalls_tau_counts_pairs(values, source):
    first = np.array(values, dtype=float)
    second = np.array(source.sample(values, len(values)), dtype=float)
    pairs = [(i, j) for i in range(len(values)) for j in range(i)]
    agree = sum(np.sign(first[i] - first[j]) * np.sign(second[i] - second[j]) for i, j in pairs)
    assert kendall_tau(first, second) == pytest.approx(agree / len(pairs))


def test_rankings_without_an_order():
    flat, sloped = np.zeros(3), np.arange(3.0)
    assert kendall_tau(flat, flat) == 1.0
    assert kendall_tau(flat, sloped) == 0.0
    assert kendall_tau(np.array([2.0]), np.array([5.0])) == 1.0
    assert stability(np.zeros((3, 0))).mean_tau == 1.0
    assert stability(sloped[None]).same_first == 1.0
