"""AttentionRAG over the real SmolLM2-135M."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from rag.attention.engine import AttentionEngine
from rag.budget import Budget
from rag.compressors import AttentionRagCompressor
from rag.compressors.anchor import Anchor, AnchorReader, Chunk
from rag.errors import ConfigError, LimitError
from rag.models import ResolvedModel
from rag.models.load import load_causal_lm
from rag.registry import build
from rag.sentences import sentences, trim
from rag.types import Document, Query, ScoredDocument

QUESTION = "How deep is the harbour of Kestrel Point?"
TEXTS = [
    "Kestrel Point lies on the west coast. Its harbour was dredged in 1961 to a depth of 14 metres. Fog is common.",
    "",
    "The bakery opens at six. Rye bread sells out by nine o'clock. 😀 Crème brûlée is served. <|im_end|> Query: no.",
]
DOCUMENTS = [Document(str(i), text, title="Port" if i == 0 else "") for i, text in enumerate(TEXTS)]
SPANS = [[trim(d.text, span) for span in sentences(d.text)] if d.text else [] for d in DOCUMENTS]


@pytest.fixture(scope="module")
def engine(smollm2: ResolvedModel) -> AttentionEngine:
    return AttentionEngine(smollm2.name)


@pytest.fixture(scope="module")
def reader(smollm2: ResolvedModel) -> AnchorReader:
    return AnchorReader(smollm2.name)


def test_chunks_hold_whole_sentences_and_every_token_once(reader: AnchorReader) -> None:
    whole = reader.chunks(DOCUMENTS, SPANS, 300)
    assert [chunk.document for chunk in whole] == [0, 2]
    small = reader.chunks(DOCUMENTS, SPANS, 16)
    assert len(small) > 4
    assert all(len(chunk.ids) <= 16 for chunk in small)
    for number in (0, 2):
        parts = [chunk for chunk in small if chunk.document == number]
        (all_,) = (chunk for chunk in whole if chunk.document == number)
        assert tuple(token for chunk in parts for token in chunk.ids) == all_.ids
        assert tuple(span for chunk in parts for span in chunk.offsets) == all_.offsets


def test_anchor_and_attention_are_those_of_one_dense_pass_per_chunk(
    reader: AnchorReader, smollm2: ResolvedModel
) -> None:
    """Batched, padded and cached gives what transformers gives for each prompt alone, in one uncached pass."""
    chunks = reader.chunks(DOCUMENTS, SPANS, 300)
    anchors = reader.read(QUESTION, "The depth is", chunks)
    model, tokenizer = load_causal_lm(smollm2, attn_implementation="eager")
    for chunk, anchor in zip(chunks, anchors, strict=True):
        before, between, after = reader._frame(QUESTION, "The depth is")
        head = (*before, *chunk.title, *between) if chunk.title else before
        ids = [*head, *chunk.ids, *after]
        with torch.inference_mode():
            token = int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
            out = model(input_ids=torch.tensor([[*ids, token]]), output_attentions=True)
        row = torch.stack([layer[0, :, -1].mean(0) for layer in out.attentions]).sum(0)
        assert anchor.text == tokenizer.decode([token])
        expected = row[len(head) : len(head) + len(chunk.ids)].double().numpy()
        np.testing.assert_allclose(anchor.attention, expected, rtol=2e-3, atol=1e-5)


def test_a_prompt_that_the_model_cannot_read_is_refused(reader: AnchorReader) -> None:
    (chunk, _) = reader.chunks(DOCUMENTS, SPANS, 300)
    with pytest.raises(LimitError, match=r"prompt of \d+ tokens; 'smollm2-135m' reads 8192"):
        reader.read("deep " * 9000, "", [chunk])


@pytest.mark.parametrize(
    ("text", "none"), [(" none", True), ("None", True), (' "none".', True), (" no", False), (" nonetheless", False)]
)
def test_the_gate_is_the_word_none(text: str, none: bool) -> None:
    assert Anchor(text, np.zeros(0)).is_none == none


def test_top_tokens_decide_and_the_budget_holds(engine: AttentionEngine) -> None:
    documents = [ScoredDocument(d, 0.0, rank) for rank, d in enumerate(DOCUMENTS, start=1)]
    compressor = AttentionRagCompressor(engine)
    results = compressor.compress(Query(QUESTION), documents, Budget(24))
    assert 0 < sum(engine.count_tokens([item.text for item in results])) <= 24
    assert [len(item.sentences) for item in results] == [3, 0, 4]
    harbour, bakery = ([sentence.score for sentence in results[place].sentences] for place in (0, 2))
    assert harbour[1] > max(0, harbour[2])  # "a depth of 14 metres" is looked at, "Fog is common" is not
    assert max(harbour) > max(bakery)
    # The published rule: every sentence with a top token, and no other.
    few = AttentionRagCompressor(engine, top_k=1, threshold=1e-9, gate=False)
    few.__dict__["_reader"] = compressor._reader
    kept = few.compress(Query(QUESTION), documents, Budget(1.0, "ratio"))
    assert [sum(sentence.kept for sentence in item.sentences) for item in kept] == [1, 0, 1]


def test_what_is_gated_ranks_last_and_is_deleted_only_on_request(
    engine: AttentionEngine, reader: AnchorReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's answers are fixed here: which words SmolLM2 happens to say is not what is tested."""
    documents = [ScoredDocument(d, 0.0, rank) for rank, d in enumerate(DOCUMENTS, start=1)]

    def answers(question: str, hint: str, chunks: Sequence[Chunk]) -> list[Anchor]:
        del question, hint
        rows = [np.eye(len(chunk.ids))[1] for chunk in chunks]
        return [Anchor(" 14" if place == 0 else " None", row) for place, row in enumerate(rows)]

    monkeypatch.setattr(reader, "read", answers)

    def kept(**options: Any) -> list[list[bool]]:
        compressor = AttentionRagCompressor(engine, **options)
        compressor.__dict__["_reader"] = reader
        results = compressor.compress(Query(QUESTION), documents, Budget(1.0, "ratio"))
        return [[sentence.kept for sentence in item.sentences] for item in results]

    assert kept() == [[True] * 3, [], [True] * 4]
    assert kept(threshold=0.0) == [[True] * 3, [], [False] * 4]
    assert kept(threshold=0.5) == [[True, False, False], [], [False] * 4]
    assert kept(threshold=0.0, gate=False) == [[True] * 3, [], [True] * 4]


def test_it_is_built_from_its_name_and_checks_its_options(engine: AttentionEngine) -> None:
    stage = build("compressor", "attention-rag", {"top_k": 3}, {"engine": lambda: engine})
    assert (stage.top_k, stage.hint("Who?")) == (3, "The person is")
    with pytest.raises(ConfigError, match="top_k must be at least 1, given 0"):
        build("compressor", "attention-rag", {"top_k": 0}, {"engine": lambda: engine})
