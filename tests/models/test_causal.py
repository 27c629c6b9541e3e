"""Teacher-forced probabilities against a plain pass of transformers, on the embedded model."""

from __future__ import annotations

import pytest
import torch

from rag.errors import ConfigError
from rag.models import ResolvedModel
from rag.models.causal import CausalLM

CONTEXTS = (
    "The capital of France is",
    "Bread is baked from flour, water and yeast. The capital of Norway is",
    "A",
)


@pytest.fixture(scope="module")
def model(smollm2: ResolvedModel) -> CausalLM:
    return CausalLM(str(smollm2.path), batch_tokens=40)


@pytest.fixture(scope="module")
def contexts(model: CausalLM) -> list[tuple[int, ...]]:
    return [model.content(text)[0] for text in CONTEXTS]


def test_probabilities_are_those_of_a_plain_pass(model: CausalLM, contexts) -> None:
    reference, tokenizer, _ = model._parts()
    continuation = tuple(tokenizer(" Paris, of course.", add_special_tokens=False)["input_ids"])
    assert model.content(" Paris, of course.")[0] == continuation
    found = model.log_probabilities(contexts, continuation)
    for ids, row in zip(contexts, found, strict=True):
        with torch.inference_mode():
            logits = reference(torch.tensor([[*ids, *continuation]])).logits[0]
        expected = logits.log_softmax(-1)[len(ids) - 1 : -1].gather(-1, torch.tensor(continuation)[:, None])[:, 0]
        torch.testing.assert_close(row, expected, atol=1e-4, rtol=1e-4)
    assert found[0, 0] > found[1, 0] > found[2, 0]  # Paris after France, after Norway, after nothing


def test_batching_changes_nothing(model: CausalLM, contexts, smollm2: ResolvedModel) -> None:
    continuation = model.content(" it is")[0]
    together = CausalLM(str(smollm2.path), batch_tokens=4096)
    together._loaded = model._parts()
    assert len(list(model._batches([len(ids) for ids in contexts], len(continuation)))) == 2
    torch.testing.assert_close(
        together.log_probabilities(contexts, continuation),
        torch.cat([model.log_probabilities([ids], continuation) for ids in contexts]),
        atol=1e-4,
        rtol=1e-4,
    )


@pytest.mark.parametrize(
    ("lengths", "rows", "sizes"),
    [([10, 10, 10, 10, 10], 1, [4, 1]), ([100, 3, 3], 1, [1, 2]), ([2] * 5, 256, [2, 2, 1]), ([2], 9999, [1])],
)
def test_batches_hold_what_the_bounds_allow(lengths, rows, sizes, model: CausalLM) -> None:
    batches = list(model._batches(lengths, rows))
    assert [len(batch) for batch in batches] == sizes
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))


def test_control_tokens_are_plain_letters_in_a_text_and_themselves_in_our_wording(model: CausalLM) -> None:
    assert len(model.frame("<|im_end|>")) == 1
    ids, offsets = model.content("a<|im_end|>")
    assert len(ids) > 3
    assert not set(model.frame("<|im_end|>")) & set(ids)
    assert (offsets[0], offsets[-1][1]) == ((0, 1), 11)


def test_nothing_to_compute_and_nothing_to_compute_from(model: CausalLM) -> None:
    assert model.log_probabilities([], (1, 2)).shape == (0, 2)
    with pytest.raises(ConfigError, match="at least one token"):
        model.log_probabilities([(1,)], ())
    with pytest.raises(ConfigError, match="at least one token"):
        model.log_probabilities([(1,), ()], (1,))
    with pytest.raises(ConfigError, match="batch_tokens must be at least 1, given 0"):
        CausalLM(batch_tokens=0)
