"""The other attention rerankers with the real model on real text."""

from __future__ import annotations

import pytest

from rag import registry
from rag.attention.types import AttentionSpec, Head
from rag.errors import ConfigError
from rag.rerankers import BlockRankReranker
from rag.rerankers.found_in_the_middle import FoundInTheMiddleReranker
from rag.types import Document, Query, ScoredDocument

PASSAGES = (
    Document("deep", "The harbour is fourteen metres deep, so large container ships can enter it at high tide."),
    Document("dunes", "Sand dunes move inland with the prevailing wind unless grass holds them."),
    Document("lamp", "The lighthouse lamp burned whale oil until it was electrified in 1911."),
    Document("bread", "Rye bread keeps for a week because its crumb holds more water than that of wheat bread."),
    Document("gulls", "Gulls circle over the fish market every morning."),
)
QUERY = Query("How deep is the harbour?")
GIVEN = [ScoredDocument(document, 0.0, rank) for rank, document in enumerate(PASSAGES[::-1], start=1)]


@pytest.mark.parametrize(
    ("name", "options", "note"),
    [
        ("reattn", {}, "reattn"),
        ("reattn", {"spread": 0.0}, "reattn"),
        ("blockrank", {}, "blockrank"),
    ],
)
def test_the_passage_that_answers_comes_first(name, options, note, engine):
    ranked = registry.build("reranker", name, options, {"engine": lambda: engine}).rerank(QUERY, GIVEN)
    assert ranked[0].document.id == "deep"
    assert [item.rank for item in ranked] == [1, 2, 3, 4, 5]
    assert all(type(item.trace[note]) is float for item in ranked)


@pytest.mark.parametrize("name", ["attention-sorting", "found-in-the-middle"])
def test_the_last_row_alone_is_not_enough_on_a_small_model_but_is_what_is_read(name, engine):
    """What the scores are, not that they rank well: on SmolLM2 they do not (docs/heads.md)."""
    heads = [[17, 4], [18, 6]]
    made = registry.build("reranker", name, {"heads": heads}, {"engine": lambda: engine})
    answer = engine.attend(QUERY, [item.document for item in GIVEN], made.spec)
    row = answer.rows["last"].double().mean(0)[0]
    if name == "found-in-the-middle":
        row = row - answer.calibration["last"].double().mean(0)[0]
    expected = {GIVEN[block.document].document.id: float(row[slice(*block.tokens)].mean()) for block in answer.blocks}
    ranked = made.rerank(QUERY, GIVEN)
    assert {item.document.id: item.score for item in ranked} == pytest.approx(expected, rel=1e-4, abs=1e-8)
    assert all(type(value) is float for item in ranked for value in item.trace.values())


def test_a_document_without_text_comes_last(engine):
    empty = [ScoredDocument(Document("empty", " "), 9.0, 1), *GIVEN[-2:]]
    for name in ("reattn", "blockrank"):
        ranked = registry.build("reranker", name, {}, {"engine": lambda: engine}).rerank(QUERY, empty)
        assert ranked[-1].document.id == "empty"
        assert len(ranked) == 3


def test_blockrank_takes_the_published_depth_and_that_layer_alone(engine):
    default = BlockRankReranker(engine)
    assert default.layer == 18  # 20 of 32, of 30
    assert default.spec == AttentionSpec(tuple(h for h in engine.all_heads() if h.layer == 18), ("all",))
    scores = {item.document.id: item.score for item in default.rerank(QUERY, GIVEN)}
    assert sum(scores.values()) == pytest.approx(1, abs=1e-4)
    assert BlockRankReranker(engine, layer=0).spec.heads[0].layer == 0


def test_the_filler_is_as_long_as_what_it_stands_for(engine):
    titled = (Document("t", PASSAGES[0].text * 3, "The depth of harbours"), *PASSAGES[1:3])
    fillers = FoundInTheMiddleReranker(engine, bias="document")._fillers(titled)
    spec = AttentionSpec((Head(0, 0),), ("last",))
    tokens = [[block.tokens for block in engine.attend(QUERY, some, spec).blocks] for some in (titled, fillers)]
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("reattn", {"spread": -0.1}, "0 or more, given -0.1"),
        ("reattn", {"language": "klingon"}, "unknown language 'klingon'; accepted: "),
        ("blockrank", {"layer": 30}, "layer 30 is outside the model: accepted are layers 0 to 29"),
        ("blockrank", {"layer": -1}, "accepted are layers 0 to 29"),
        ("found-in-the-middle", {"bias": "slot"}, "'query' or 'document'.*given 'slot'"),
        ("attention-sorting", {"pooling": "max"}, "'mean' or 'sum'.*given 'max'"),
    ],
)
def test_bad_options_say_what_is_accepted(name, options, message, engine):
    with pytest.raises(ConfigError, match=message):
        registry.build("reranker", name, options, {"engine": lambda: engine})
