"""The default reranker over an engine with an adapter: its heads, each with its weight."""

from __future__ import annotations

import pytest
import torch

from rag.attention.adapter import AdapterInfo, AttentionAdapter, TaskHeads
from rag.attention.engine import AttentionEngine
from rag.attention.types import Head
from rag.rerankers import HeadReranker
from rag.rerankers.scores import head_scores, zscore
from rag.types import Document, Query, ScoredDocument

DOCUMENTS = (
    Document("deep", "The harbour is fourteen metres deep, so large container ships can enter it at high tide."),
    Document("dunes", "Sand dunes move inland with the prevailing wind unless grass holds them."),
    Document("lamp", "The lighthouse lamp burned whale oil until it was electrified in 1911."),
)
QUERY = Query("How deep is the harbour?")
HEADS, WEIGHTS = (Head(3, 0), Head(5, 2), Head(5, 4)), (2.0, 0.25, -0.5)


def test_an_adapters_heads_are_weighted_unless_heads_are_given(engine, tmp_path):
    info = AdapterInfo(
        model=engine.decoder.name,
        fingerprint=engine.decoder.fingerprint,
        template=engine.template.digest(),
        layout="block",
        alpha=1.0,
        exit_layer=5,
        tasks={"document": TaskHeads(heads=HEADS, weights=WEIGHTS)},
        method="by hand",
        data="none",
    )
    AttentionAdapter(info, {}).save(tmp_path / "heads.safetensors")
    adapted = AttentionEngine(engine.decoder, adapter=tmp_path / "heads.safetensors")
    given = [ScoredDocument(document, 0.0, rank) for rank, document in enumerate(DOCUMENTS, start=1)]
    made = HeadReranker(adapted, weight=None)
    assert made.spec.heads == HEADS
    scores = zscore(head_scores(adapted.attend(QUERY, DOCUMENTS, made.spec), HEADS))
    for reranker, weights in ((made, WEIGHTS), (HeadReranker(adapted, heads=HEADS, weight=None), (1.0, 1.0, 1.0))):
        expected = zscore((torch.tensor(weights, dtype=torch.float64) @ scores) / 3)
        found = {item.document.id: item.score for item in reranker.rerank(QUERY, given)}
        assert [found[d.id] for d in DOCUMENTS] == pytest.approx(expected.tolist(), abs=1e-4)
