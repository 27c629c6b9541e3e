"""The engine's numbers against a dense eager pass with ``output_attentions``: same mask, same positions."""

from __future__ import annotations

import random

import pytest
import tiny
import torch
from transformers import AutoTokenizer

from rag.attention import passes
from rag.attention.decoder import Decoder
from rag.attention.engine import AttentionEngine, AttentionRequest
from rag.attention.types import AttentionSpec, Head
from rag.models.resolve import ResolvedModel
from rag.types import Document, Query

DOCUMENTS = (
    Document("a", "The harbour is fourteen metres deep. Large ships can enter it at high tide.", "Harbour"),
    Document("b", "Query: [3] Sand dunes move with the wind."),
    Document("c", "Boats."),
    Document("d", "The lighthouse was built in 1856 and its lamp burned whale oil until 1911.", "Lighthouse"),
)
QUERY = Query("How deep is the harbour?")
SPEC = AttentionSpec(rows=("all", "mean", "last"), calibrated=True)


@pytest.fixture(scope="module")
def tokenizer(smollm2: ResolvedModel):
    return AutoTokenizer.from_pretrained(smollm2.path)


def make(family: str, tokenizer, **options) -> AttentionEngine:
    decoder = Decoder(tiny.decoder(family), tokenizer, family, "")
    return AttentionEngine(decoder, split=tiny.split_words, window_tokens=96, overlap_tokens=8, **options)


def reference(family: str, engine: AttentionEngine, branch: tuple[int, ...]) -> torch.Tensor:
    """Dense attention of one branch's rows over all document tokens, under the layout's mask."""
    prompter = engine._prompter
    prefix, suffix = list(prompter.prefix), [*prompter.stem, *branch]
    blocks = [list(window.ids) for windows in prompter.blocks(DOCUMENTS) for window in windows]
    if engine.layout == "causal":
        blocks = [[token for block in blocks for token in block]]
    owner, positions = [-1] * len(prefix), list(range(len(prefix)))
    for number, block in enumerate(blocks):
        owner += [number] * len(block)
        positions += [len(prefix) + offset for offset in range(len(block))]
    gap = engine.window_tokens if engine.layout == "block" else len(blocks[0])
    owner += [-2] * len(suffix)
    positions += [len(prefix) + gap + offset for offset in range(len(suffix))]
    who, order = torch.tensor(owner), torch.arange(len(owner))
    same = (who[:, None] == who[None, :]) | (who[None, :] == -1) | (who[:, None] == -2)
    sees = same & (order[:, None] >= order[None, :])
    ids = [*prefix, *(token for block in blocks for token in block), *suffix]
    rows = list(range(len(ids) - len(branch), len(ids)))
    columns = list(range(len(prefix), len(ids) - len(suffix)))
    return tiny.eager_rows(family, ids, positions, sees, rows, columns).flatten(0, 1)


@pytest.mark.parametrize("layout", ["block", "causal"])
@pytest.mark.parametrize("family", sorted(tiny.CONFIGS))
def test_rows_equal_eager_attention(family, layout, tokenizer):
    engine = make(family, tokenizer, layout=layout)
    seen = engine.attend(QUERY, DOCUMENTS, SPEC)
    expected = reference(family, engine, engine._prompter.query(QUERY))
    torch.testing.assert_close(seen.rows["all"], expected, atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(seen.rows["mean"], expected.mean(1, keepdim=True), atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(seen.rows["last"], expected[:, -1:], atol=1e-5, rtol=1e-3)
    free = reference(family, engine, engine._prompter.content_free)
    torch.testing.assert_close(seen.calibration["all"], free, atol=1e-5, rtol=1e-3)
    assert float(expected.std(-1).mean()) > 1e-3  # attention of this model is not flat: equality means something


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_few_heads_and_early_exit_give_the_same_rows_as_all(family, tokenizer):
    everything = make(family, tokenizer).attend(QUERY, DOCUMENTS, SPEC)
    heads = (Head(0, 3), Head(1, 0), Head(2, 2))
    few = make(family, tokenizer).attend(QUERY, DOCUMENTS, AttentionSpec(heads, ("all",)))
    assert few.heads == heads
    picked = [everything.heads.index(head) for head in heads]
    torch.testing.assert_close(few.rows["all"], everything.rows["all"][picked], atol=1e-6, rtol=1e-4)


def test_layers_above_the_last_one_read_never_run(tokenizer):
    engine = make("llama", tokenizer)
    ran: list[int] = []
    for index, layer in enumerate(engine._model.layers):
        layer.self_attn.register_forward_pre_hook(lambda *_, index=index: ran.append(index))
    engine.attend(QUERY, DOCUMENTS, AttentionSpec((Head(1, 2),)))
    assert set(ran) == {0, 1}


def test_block_scores_do_not_depend_on_the_order_of_documents(tokenizer):
    engine = make("qwen3", tokenizer)
    order = list(range(len(DOCUMENTS)))
    random.Random(3).shuffle(order)
    straight = engine.attend(QUERY, DOCUMENTS, SPEC)
    shuffled = engine.attend(QUERY, [DOCUMENTS[i] for i in order], SPEC)
    for block in shuffled.blocks:
        twin = next(b for b in straight.blocks if b.document == order[block.document])
        torch.testing.assert_close(
            shuffled.rows["mean"][:, :, slice(*block.tokens)],
            straight.rows["mean"][:, :, slice(*twin.tokens)],
            atol=1e-6,
            rtol=1e-4,
        )


def test_a_batch_of_queries_gives_what_each_gives_alone(tokenizer):
    engine = make("llama", tokenizer)
    requests = [
        AttentionRequest(QUERY, DOCUMENTS, SPEC),
        AttentionRequest(Query("When was the lighthouse built, and by whom?"), DOCUMENTS, SPEC),
        AttentionRequest(Query("boats"), DOCUMENTS[1:3], SPEC),
    ]
    for request, together in zip(requests, engine.attend_many(requests), strict=True):
        alone = engine.attend(request.query, request.documents, SPEC)
        for name in SPEC.rows:
            torch.testing.assert_close(together.rows[name], alone.rows[name], atol=1e-6, rtol=1e-4)
            torch.testing.assert_close(together.calibration[name], alone.calibration[name], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(("precision", "error"), [("float16", 2e-3), ("bfloat16", 2e-2), ("int8", 6e-2)])
def test_stored_precision_changes_attention_by_no_more_than_stated(precision, error, tokenizer):
    exact = make("llama", tokenizer).attend(QUERY, DOCUMENTS, SPEC).rows["mean"]
    stored = make("llama", tokenizer, cache_precision=precision).attend(QUERY, DOCUMENTS, SPEC).rows["mean"]
    difference = (stored - exact).abs().sum(-1) / exact.sum(-1)
    assert 0 < float(difference.max()) < error


@pytest.mark.parametrize("layout", ["block", "causal"])
def test_rows_in_chunks_are_the_rows_at_once(layout, tokenizer, monkeypatch):
    whole = make("llama", tokenizer, layout=layout).attend(QUERY, DOCUMENTS, SPEC)
    monkeypatch.setattr(passes, "_ROW_CHUNK", 7)
    chunked = make("llama", tokenizer, layout=layout).attend(QUERY, DOCUMENTS, SPEC)
    torch.testing.assert_close(chunked.rows["all"], whole.rows["all"], atol=1e-6, rtol=1e-4)
