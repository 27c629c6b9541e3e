"""Orderings that read the real SmolLM2-135M, in both layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag.attention.decoder import Decoder
from rag.attention.engine import AttentionEngine
from rag.attention.shared import SharedPass
from rag.compressors.ordering import AttentionSort, AttnRank, FoundInTheMiddle
from rag.compressors.ordering.document_attention import document_attention
from rag.compressors.ordering.profiling import read_slots, slot_profile
from rag.compressors.ordering.slot_profile import shipped
from rag.config import Settings
from rag.errors import ConfigError, InputError
from rag.models import ResolvedModel
from rag.pipeline import Pipeline
from rag.types import Document, Query, ScoredDocument

TEXTS = (
    "The harbour of Kestrel Point was dredged in 1961 to a depth of 14 metres.",
    "The bakery opens at six and sells out by nine.",
    "Fog is common along the west coast in autumn.",
    "The school was rebuilt after the fire.",
    "Buses leave every hour from the square.",
)
DOCUMENTS = [ScoredDocument(Document(str(i), text), -float(i), i + 1) for i, text in enumerate(TEXTS)]
QUERY = Query("How deep is the harbour of Kestrel Point?")


@pytest.fixture(scope="module")
def decoder(smollm2: ResolvedModel) -> Decoder:
    return Decoder.load(smollm2.name)


@pytest.fixture(scope="module")
def causal(decoder: Decoder) -> AttentionEngine:
    return AttentionEngine(decoder, layout="causal")


@pytest.fixture(scope="module")
def block(decoder: Decoder) -> AttentionEngine:
    return AttentionEngine(decoder)


def ids(documents: list[ScoredDocument]) -> list[str]:
    return [item.document.id for item in documents]


def test_attention_sort_reads_once_in_the_block_layout_and_again_in_the_causal_one(
    block: AttentionEngine, causal: AttentionEngine
) -> None:
    notes = AttentionSort(block).order(QUERY, DOCUMENTS[:3])[0].trace["ordering"]
    assert (notes["passes"], notes["stopped"]) == (1, "block layout")
    sort = AttentionSort(causal, iterations=2)
    placed = sort.order(QUERY, DOCUMENTS[:3])
    notes = placed[0].trace["ordering"]
    assert notes["stopped"] in {"order unchanged", "iterations"}
    assert notes["tokens"] == notes["passes"] * causal.attend(QUERY, _plain(3), sort.spec).token_ids.numel()
    if notes["stopped"] == "order unchanged":
        assert ids(AttentionSort(causal, iterations=1).order(QUERY, placed)) == ids(placed)


def test_a_slot_profile_of_real_prompts(causal: AttentionEngine, block: AttentionEngine, tmp_path: Path) -> None:
    slots = np.stack([read_slots(causal, QUERY, documents) for documents in (_plain(3), _plain(3)[::-1])])
    assert slots.shape == (2, causal.layers, 3)
    assert (slots > 0).all()
    assert not np.array_equal(slots[0], slots[1])
    profile = slot_profile(causal, {3: slots}, "a test", layer=15)
    assert profile.layers == (15, 15)
    profile.save(tmp_path / "profile.json")
    placed = FoundInTheMiddle(causal, bias="profile", profile=tmp_path / "profile.json").order(QUERY, DOCUMENTS[:3])
    relative = slots[0, 15] / slots[0, 15].mean() - profile.slots(3)
    assert ids(placed) == [str(i) for i in np.argsort(-relative, kind="stable")]
    with pytest.raises(ConfigError, match="layer 30 is outside the model"):
        slot_profile(causal, {3: slots}, "a test", layer=30)
    with pytest.raises(ConfigError, match="accepted: the causal layout"):
        read_slots(block, QUERY, _plain(3))
    with pytest.raises(ConfigError, match="accepted: the causal layout"):
        FoundInTheMiddle(block, bias="profile")
    with pytest.raises(InputError, match="without text takes no slot"):
        read_slots(causal, QUERY, [Document("a", " ")])


def test_found_in_the_middle_shares_the_pass_and_sorts_by_what_is_beyond_the_bias(block: AttentionEngine) -> None:
    heads = block.default_heads("document")
    ordering = FoundInTheMiddle(block, heads=heads)
    assert ordering.spec is not None
    shared = SharedPass(block, QUERY, [ordering.spec])
    placed = ordering.order(QUERY, DOCUMENTS[::-1], attender=shared)
    assert shared.count.passes == 1
    answer = block.attend(QUERY, [item.document for item in DOCUMENTS], ordering.spec)
    relative = document_attention(answer, heads, calibrated=True)
    assert ids(placed) == [str(i) for i in np.argsort(-relative, kind="stable")]
    assert placed == ordering.order(QUERY, DOCUMENTS[::-1])


def test_attnrank_with_the_shipped_profile(block: AttentionEngine) -> None:
    placed = AttnRank(block).order(QUERY, DOCUMENTS)
    slots = shipped()[0].slots(5)
    assert placed[int(slots.argmax())] is DOCUMENTS[0]
    assert placed[int(slots.argmin())] is DOCUMENTS[-1]


def test_a_pipeline_traces_what_the_ordering_cost(block: AttentionEngine) -> None:
    stages = {"retriever": "bm25", "reranker": None, "compressor": None, "ordering": "attention-sort"}
    details = Pipeline(Settings(**stages), engine=block).run(QUERY, _plain(2)).trace[-1].details
    assert details["attention_passes"] == details["passes"] == 1
    assert details["tokens"] > 0
    assert details["stopped"] == "block layout"


def _plain(count: int) -> list[Document]:
    return [item.document for item in DOCUMENTS[:count]]
