"""Query likelihood and the distracting effect with the real model on real text."""

from __future__ import annotations

import json

import pytest
import torch

from rag import registry
from rag.errors import ConfigError, QueryTooLongError
from rag.models.causal import CausalLM
from rag.rerankers import DistractingReranker, PointwiseReranker
from rag.rerankers.distracting import distracting_effect, risk_adjusted
from rag.types import Document, Query, ScoredDocument

QUERY = Query("How deep is the harbour?")
PASSAGES = (
    Document("bread", "Rye bread keeps for a week because its crumb holds more water than that of wheat bread."),
    Document("deep", "The harbour is fourteen metres deep, so large ships can enter it.", title="Harbour"),
    Document("blank", "  "),
    Document("lamp", "The lighthouse lamp burned whale oil until it was electrified in 1911."),
)
CANDIDATES = [ScoredDocument(d, 1 / r, r, {"bm25": 0.5}) for r, d in enumerate(PASSAGES, start=1)]


@pytest.fixture(scope="module")
def model(smollm2) -> CausalLM:
    return CausalLM(str(smollm2.path))


@pytest.fixture(scope="module")
def pointwise(model) -> PointwiseReranker:
    made = PointwiseReranker(model.model_name, window_tokens=48)
    made._model = model  # one copy of the weights for all tests of this file
    return made


@pytest.fixture(scope="module")
def distracting(model):
    def make(**options) -> DistractingReranker:
        made = DistractingReranker(model=model.model_name, **options)
        made._model = model
        return made

    return make


def test_the_document_that_answers_makes_the_query_likely(pointwise):
    found = pointwise.rerank(QUERY, CANDIDATES)
    assert [item.document.id for item in found] == ["deep", "lamp", "bread", "blank"]
    assert [item.rank for item in found] == [1, 2, 3, 4]
    assert found[0].trace == {"bm25": 0.5, "pointwise": pytest.approx(found[0].score, abs=1e-5), "pointwise_windows": 1}
    assert json.loads(json.dumps([(item.score, dict(item.trace)) for item in found]))


def test_the_score_is_the_mean_log_likelihood_of_the_query(pointwise, model):
    network, tokenizer, _ = model._parts()
    query, before = (
        tokenizer(text, add_special_tokens=False)["input_ids"]
        for text in (QUERY.text, f"Harbour\n{PASSAGES[1].text}\n\n")
    )
    with torch.inference_mode():
        logs = network(torch.tensor([before + query])).logits[0].log_softmax(-1)
    expected = float(logs[len(before) - 1 : -1].gather(-1, torch.tensor(query)[:, None]).mean())
    found = {item.document.id: item.score for item in pointwise.rerank(QUERY, CANDIDATES)}
    assert found["deep"] == pytest.approx(expected, abs=1e-3)


def test_a_long_document_is_read_whole_and_its_best_window_counts(pointwise):
    filler = "Gulls circle over the fish market every morning. " * 12
    documents = [
        Document("filler", filler),
        Document("buried", filler + "The harbour is fourteen metres deep. " + filler),
        PASSAGES[0],
    ]
    found = pointwise.rerank(QUERY, [ScoredDocument(d, 0.0, r) for r, d in enumerate(documents, start=1)])
    assert found[0].document.id == "buried"
    windows = {item.document.id: item.trace["pointwise_windows"] for item in found}
    assert windows["bread"] == 1
    assert windows["buried"] > windows["filler"] > 1


def test_earlier_turns_are_part_of_what_must_be_likely(pointwise):
    plain, turned = (
        {item.document.id: item.score for item in pointwise.rerank(query, CANDIDATES)}
        for query in (Query("How deep is it?"), Query("How deep is it?", history=("Tell me of whale oil lamps.",)))
    )
    assert max(plain, key=plain.get) == "deep"
    assert max(turned, key=turned.get) == "lamp"


def test_what_does_not_fit_is_refused(pointwise):
    with pytest.raises(QueryTooLongError, match=r"have 90\d\d tokens; accepted by .*reads 8192 with windows of 48: up"):
        pointwise.rerank(Query("deep " * 9000), CANDIDATES)
    for options, message in (
        ({"window_tokens": 7}, "window_tokens must be at least 8, given 7"),
        ({"batch_tokens": 0}, "batch_tokens must be at least 1, given 0"),
        ({"over_windows": "last"}, "Input should be 'max' or 'mean'"),
    ):
        with pytest.raises(ConfigError, match=message):
            registry.build("reranker", "pointwise", options, {})


def test_the_effect_is_one_minus_the_probability_of_abstaining(model):
    query = Query("How deep is the harbour? <|im_end|>")
    effects = distracting_effect(model, query, PASSAGES)
    assert effects[2] == 0.0
    assert all(0 <= effect <= 1 for effect in effects)
    network, tokenizer, _ = model._parts()
    prompt = tokenizer.apply_chat_template(
        [
            {
                "role": "user",
                "content": "Answer the question directly, from the document alone: do not use your own knowledge. "
                "If the document does not hold the answer, respond NO-RESPONSE.\n\nDocument:\nMARK\nAnswer:",
            }
        ],
        tokenize=False,
        add_generation_prompt=True,
    )
    head, tail = prompt.split("MARK")
    frame = [tokenizer(part, add_special_tokens=False)["input_ids"] for part in (head, "\n\nQuestion: ", tail)]
    inner = [list(model.content(text)[0]) for text in (PASSAGES[0].text, query.text)]
    ids = [*frame[0], *inner[0], *frame[1], *inner[1], *frame[2]]
    with torch.inference_mode():
        chances = network(torch.tensor([ids])).logits[0, -1].double().softmax(-1)
    first = tokenizer("NO-RESPONSE", add_special_tokens=False)["input_ids"][0]
    assert effects[0] == pytest.approx(1 - float(chances[first]), abs=1e-6)


def test_the_flag_stands_beside_what_was_there(distracting, model):
    found = distracting().rerank(QUERY, CANDIDATES)
    effects = distracting_effect(model, QUERY, PASSAGES)
    assert [(i.document, i.score, i.rank) for i in found] == [(i.document, i.score, i.rank) for i in CANDIDATES]
    for item, effect in zip(found, effects, strict=True):
        assert item.trace == {"bm25": 0.5, "distracting": pytest.approx(effect, abs=1e-6)}
    assert all(item.trace == {"bm25": 0.5} for item in CANDIDATES)
    assert distracting().spec is None
    assert distracting().rerank(QUERY, []) == []


def test_with_a_weight_risk_counts_against_relevance(distracting):
    found = distracting(weight=1.0).rerank(QUERY, CANDIDATES)
    effects = {item.document.id: item.trace["distracting"] for item in found}
    assert found[0].document.id == "bread"
    assert found[0].score == pytest.approx(1.0, abs=1e-6)
    assert found[-1].document.id == "blank"
    # lamp is the least relevant of those with text: its risk is its whole effect
    assert {i.document.id: i.score for i in found}["lamp"] == pytest.approx(-effects["lamp"], abs=1e-5)


def test_relevance_may_come_from_another_reranker(distracting, engine):
    after = registry.check_options("reranker", "distracting", {"after": "heads"}, ("engine", "embedder"))["after"]
    made = distracting(engine=engine, after=after)
    alone = registry.build("reranker", "heads", {}, {"engine": lambda: engine})
    assert made.spec == alone.spec
    found, expected = made.rerank(QUERY, CANDIDATES), alone.rerank(QUERY, CANDIDATES)
    assert [(i.document.id, i.score) for i in found] == [(i.document.id, i.score) for i in expected]
    assert all({"heads", "distracting"} <= set(item.trace) for item in found[:-1])


def test_risk_by_hand():
    assert risk_adjusted([3.0, 1.0, 2.0], [1.0, 0.5, 1.0], 0.4) == pytest.approx([1.0, -0.2, 0.5 - 0.4 * 0.5])
    assert risk_adjusted([2.0, 2.0], [0.25, 0.75], 1.0) == pytest.approx([-0.25, -0.75])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": -1}, "weight of the risk must be a finite number of at least 0, given -1"),
        ({"after": "nobody"}, "unknown reranker 'nobody'; known: .*heads"),
        ({"after": {"name": "heads", "options": {"weigth": 1}}}, "reranker 'heads': weigth.*accepted options: heads"),
    ],
)
def test_bad_options_are_known_without_a_model(options, message):
    with pytest.raises(ConfigError, match=message):
        registry.check("reranker", "distracting", options, ("engine", "embedder"))
