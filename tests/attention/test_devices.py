"""What an accelerator runs, as far as a CPU can tell: its kernels, half precision, and no tensor left on the host."""

from __future__ import annotations

import pytest
import tiny
import torch
from transformers import AutoTokenizer

from rag.attention import memory, passes, softmax
from rag.attention.decoder import Decoder
from rag.attention.engine import AttentionEngine, AttentionRequest
from rag.attention.types import AttentionSpec, Head
from rag.models.resolve import ResolvedModel
from rag.types import Document, Query

DOCUMENTS = tuple(
    Document(str(n), f"Ship number {n} carries {n * 7} barrels of oil to the lighthouse. " * (1 + n % 4), "Ships")
    for n in range(1, 8)
)
QUERY = Query("How many barrels are on ship 3?")
SPEC = AttentionSpec(rows=("all", "mean"), calibrated=True)


@pytest.fixture(scope="module")
def tokenizer(smollm2: ResolvedModel):
    return AutoTokenizer.from_pretrained(smollm2.path)


def make(family: str, tokenizer, place: str | torch.dtype = "cpu", **options) -> AttentionEngine:
    decoder = Decoder(tiny.decoder(family).to(place), tokenizer, family, "")
    return AttentionEngine(decoder, split=tiny.split_words, window_tokens=96, overlap_tokens=8, **options)


def as_on_an_accelerator(monkeypatch) -> None:
    monkeypatch.setattr(softmax, "_fast_cpu", softmax._plain)
    monkeypatch.setattr(passes, "one_by_one", lambda _: False)


@pytest.mark.parametrize("layout", ["block", "causal"])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_the_kernels_of_an_accelerator_give_the_maps_of_the_cpu(family, layout, tokenizer, monkeypatch):
    requests = [AttentionRequest(QUERY, DOCUMENTS, SPEC), AttentionRequest(Query("oil"), DOCUMENTS[2:4], SPEC)]
    expected = make(family, tokenizer, layout=layout).attend_many(requests)
    as_on_an_accelerator(monkeypatch)
    padded: list[int] = []
    real = passes.EncodePass._all_blocks
    monkeypatch.setattr(passes.EncodePass, "_all_blocks", lambda self, *a: (padded.append(1), real(self, *a))[1])
    found = make(family, tokenizer, layout=layout).attend_many(requests)
    assert padded
    for left, right in zip(found, expected, strict=True):
        for name in SPEC.rows:
            torch.testing.assert_close(left.rows[name], right.rows[name], atol=1e-6, rtol=1e-4)
            torch.testing.assert_close(left.calibration[name], right.calibration[name], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("accelerator", [False, True])
def test_bfloat16_stays_near_float32(accelerator, tokenizer, monkeypatch):
    exact = make("llama", tokenizer).attend(QUERY, DOCUMENTS, SPEC).rows["mean"]
    if accelerator:
        as_on_an_accelerator(monkeypatch)
    half = make("llama", tokenizer, torch.bfloat16, cache_precision="bfloat16").attend(QUERY, DOCUMENTS, SPEC)
    assert half.rows["mean"].dtype == torch.float32
    error = (half.rows["mean"] - exact).abs().sum(-1) / exact.sum(-1)
    assert 0 < float(error.max()) < 0.15  # weights this large and random make the worst case


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("family", ["llama", "mistral-sliding"])
def test_nothing_is_left_on_the_host_before_the_rows_are_fetched(family, precision, tokenizer):
    """A tensor made on the CPU cannot be used with one on "meta"; what fails is the fetching, and nothing before."""
    engine = make(family, tokenizer, "meta", cache_precision=precision)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor") as caught:
        engine.attend(QUERY, DOCUMENTS, AttentionSpec((Head(1, 0), Head(2, 3)), ("all", "mean"), calibrated=True))
    assert "_finite(torch.stack(parts).cpu())" in str(caught.traceback[-1].statement)


def test_freed_memory_can_be_given_back_anywhere(monkeypatch):
    memory.give_back_freed()
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    memory.give_back_freed()
