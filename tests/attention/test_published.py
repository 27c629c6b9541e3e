"""Published head lists: complete, named in configurations, and refused for models of another shape."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny
from transformers import AutoTokenizer

from rag import registry
from rag.attention import published
from rag.attention.decoder import Decoder
from rag.attention.engine import AttentionEngine
from rag.attention.types import Head
from rag.errors import ArtefactError, ConfigError

NAMES = ["llama-3.1-8b-lme", "llama-3.1-8b-nq", "llama-3.2-1b-nq", "llama-3.2-3b-nq", "qwen2.5-7b-nq"]


def test_the_lists_are_those_of_the_paper():
    lists = {item.name: item for item in published.published()}
    assert list(lists) == NAMES
    for item in lists.values():
        assert len(set(item.heads)) == 16
        assert all(head.layer < item.layers and head.head < item.heads_per_layer for head in item.heads)
        assert "2506.09944" in item.citation
    # The paper's point that heads depend on the task: the two lists of one model share three.
    shared = {*lists["llama-3.1-8b-nq"].heads} & {*lists["llama-3.1-8b-lme"].heads}
    assert shared == {Head(13, 1), Head(14, 31), Head(14, 22)}


@pytest.fixture(scope="module")
def engine(smollm2) -> AttentionEngine:
    """An engine over a tiny Llama."""
    decoder = Decoder(tiny.decoder("llama"), AutoTokenizer.from_pretrained(smollm2.path), "tiny", "")
    return AttentionEngine(decoder, window_tokens=96, overlap_tokens=8)


def in_shape_of(item, engine, monkeypatch):
    config = SimpleNamespace(
        model_type=item.architecture, num_hidden_layers=item.layers, num_attention_heads=item.heads_per_layer
    )
    monkeypatch.setattr(engine.decoder.model, "config", config)


@pytest.mark.parametrize("item", published.published(), ids=lambda item: item.name)
def test_a_model_of_the_same_shape_takes_the_list_and_hears_of_its_prompt(item, engine, monkeypatch, caplog):
    in_shape_of(item, engine, monkeypatch)
    published.warn_of_prompt.cache_clear()
    name = f"published:{item.name}"
    with caplog.at_level(logging.WARNING):
        made = registry.build("reranker", "heads", {"heads": name}, {"engine": lambda: engine})
        assert engine.choose_heads("sentence", Path(name)) == item.heads
    assert made.spec.heads == item.heads
    (record,) = caplog.records
    assert name in record.getMessage()
    assert "another prompt" in record.getMessage()


def test_another_shape_is_refused_with_both(engine):
    with pytest.raises(
        ArtefactError,
        match=r"'published:qwen2\.5-7b-nq'.*Qwen2\.5-7B.*: expected qwen2 with 28 layers of 28 heads, "
        r"found llama with 4 layers of 4 heads",
    ):
        engine.choose_heads("document", "published:qwen2.5-7b-nq")


def test_an_unknown_name_lists_the_known_ones(engine):
    with pytest.raises(ConfigError, match=r"no head list 'published:gpt'; published lists: published:llama.*qwen"):
        registry.build("reranker", "heads", {"heads": "published:gpt"}, {"engine": lambda: engine})
