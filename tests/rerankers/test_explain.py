"""Explanations: what is listed adds up to the score, and stands where the text says it."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from attention_maps import HEADS, word_map

from rag.attention.types import AttentionSpec, Head
from rag.errors import InputError
from rag.rerankers.explain import explain, explained
from rag.rerankers.icr import IcrReranker
from rag.types import Document, Query, ScoredDocument, Span

QUERY = Query("How deep is the harbour?")
DOCUMENTS = (
    Document("deep", "The harbour is fourteen metres deep, so large container ships can enter it.", "Harbour"),
    Document("empty", " "),
    Document("lamp", "The lighthouse lamp burned whale oil until it was electrified in 1911."),
)


def test_heads_and_tokens_each_add_up_to_the_score(engine):
    heads = engine.default_heads("document")
    explanation = explain(engine, QUERY, DOCUMENTS, heads)
    answer = engine.attend(QUERY, DOCUMENTS, AttentionSpec(heads, calibrated=True))
    total = (answer.rows["mean"] - answer.calibration["mean"])[:, 0].double().sum(0)
    spans = {block.document: slice(*block.tokens) for block in answer.blocks}
    for place, item in enumerate(explanation.documents):
        expected = float(total[spans[place]].sum()) if place in spans else 0.0
        assert item.score == pytest.approx(expected, abs=1e-5)
        assert sum(share.value for share in item.heads) == pytest.approx(item.score, abs=1e-5)
        assert sum(share.value for share in item.tokens) == pytest.approx(item.score, abs=1e-5)
    deep, empty, lamp = explanation.documents
    assert deep.score > lamp.score
    assert {share.head for share in deep.heads} == set(heads)
    assert (empty.score, empty.tokens, empty.windows) == (0.0, (), 0)


def test_tokens_stand_where_the_text_says_and_the_title_nowhere(engine):
    deep = explain(engine, QUERY, DOCUMENTS, engine.default_heads("document")).documents[0]
    spans = [share.span for share in deep.tokens if share.span is not None]
    assert spans == sorted(spans)
    assert "".join(DOCUMENTS[0].text[start:end].strip() for start, end in spans) == DOCUMENTS[0].text.replace(" ", "")
    assert len(deep.tokens) - len(spans) > 1  # "Harbour", and what the template puts around it


def test_an_explanation_is_json(engine):
    explanation = explain(engine, QUERY, DOCUMENTS, ((7, 7),))
    plain = json.loads(json.dumps(asdict(explanation), allow_nan=False))
    assert plain["documents"][0]["heads"][0]["head"] == [7, 7]
    assert plain["documents"][0]["id"] == "deep"


def test_the_window_that_decides_is_explained():
    document = Document("d", "low low high high")
    answer = word_map(
        [document],
        lambda word: {"low": 0.1, "high": 0.4}[word],
        [[Span(0, 7), Span(8, 17)]],
        calibration=0.0,
    )
    answer.rows["mean"][..., [block.tokens.start for block in answer.blocks]] = 0.0
    (item,) = explained(answer, HEADS[1:])
    assert (item.window, item.windows) == (Span(8, 17), 2)
    assert item.score == pytest.approx(1.6)
    assert [share.span for share in item.tokens] == [None, Span(8, 12), Span(12, 17)]
    both = explained(answer)[0]
    assert [(share.head, share.value) for share in both.heads] == [
        (Head(1, 1), pytest.approx(1.6)),
        (Head(0, 0), pytest.approx(0.8)),
    ]


def test_the_reranker_scores_the_same_but_for_its_mask(engine):
    heads = engine.default_heads("document")
    given = [ScoredDocument(document, 0.0, rank) for rank, document in enumerate(DOCUMENTS[::2], start=1)]
    scores = {item.document.id: item.score for item in IcrReranker(engine, heads=heads).rerank(QUERY, given)}
    for item in explain(engine, QUERY, DOCUMENTS[::2], heads).documents:
        # What the mask takes out is negative: the reranker's score, but for its rounding, is the greater.
        assert -1e-5 <= scores[item.id] - item.score < 0.5 * abs(scores[item.id])


def test_nothing_to_read_and_heads_that_are_not_there(engine):
    assert explain(engine, QUERY, [], None).documents == ()
    assert explain(engine, QUERY, DOCUMENTS[1:2], None).documents[0].score == 0.0
    with pytest.raises(InputError, match="99-0 is outside the model"):
        explain(engine, QUERY, DOCUMENTS, (Head(99, 0),))
