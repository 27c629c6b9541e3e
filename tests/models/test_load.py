from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
import torch

from rag.errors import ConfigError, ModelNotFoundError
from rag.models import ModelStore, ResolvedModel
from rag.models.load import load_causal_lm, load_decoder, load_embedder
from rag.models.quiet import quiet


@pytest.fixture(scope="module")
def tiny(converted: tuple[ModelStore, Path]) -> ResolvedModel:
    """The tiny GGUF, converted."""
    return ResolvedModel("tiny", "llm", "gguf", converted[1])


def test_converted_gguf_computes_what_the_gguf_does(tiny: ResolvedModel, tiny_gguf: Path) -> None:
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(
        str(tiny_gguf.parent), gguf_file=tiny_gguf.name, dtype=torch.float32, attn_implementation="eager"
    )
    ids = torch.arange(3, 23)[None]
    with torch.inference_mode():
        expected = reference(ids, output_hidden_states=True)
        model, tokenizer = load_causal_lm(tiny, attn_implementation="eager")
        torch.testing.assert_close(model(ids).logits, expected.logits)
        decoder, _ = load_decoder(tiny, attn_implementation="eager")
        torch.testing.assert_close(decoder(ids).last_hidden_state, expected.hidden_states[-1])
    assert tokenizer.decode(tokenizer("cab", add_special_tokens=False)["input_ids"]) == "cab"


def test_decoder_is_bare_frozen_and_in_eval_mode(tiny: ResolvedModel) -> None:
    decoder, tokenizer = load_decoder(tiny, dtype="bfloat16", attn_implementation="sdpa")
    assert not hasattr(decoder, "lm_head")
    assert not decoder.training
    assert not any(parameter.requires_grad for parameter in decoder.parameters())
    assert {parameter.dtype for parameter in decoder.parameters()} == {torch.bfloat16}
    assert decoder.config._attn_implementation == "sdpa"
    assert tokenizer.is_fast


def test_missing_weights_are_an_error_not_random_numbers(tiny: ResolvedModel, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(tiny.path, tmp_path / "model")
    weights = load_file(str(tmp_path / "model" / "model.safetensors"))
    del weights["model.layers.1.self_attn.q_proj.weight"]
    save_file(weights, str(tmp_path / "model" / "model.safetensors"), metadata={"format": "pt"})
    broken = ResolvedModel("broken", "llm", "local", tmp_path / "model")
    for load in (load_decoder, load_causal_lm):
        with pytest.raises(ModelNotFoundError, match=r"lacks 1 weights: .*layers\.1\.self_attn\.q_proj\.weight"):
            load(broken)


def test_bad_settings_and_bad_folders(tiny: ResolvedModel, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="dtype 'int8'; accepted: float32, float16, bfloat16"):
        load_decoder(tiny, dtype="int8")  # type: ignore[arg-type]
    for load in (load_decoder, load_embedder):
        with pytest.raises(ConfigError, match="device 'abacus' cannot be used"):
            load(tiny, device="abacus")
    (tmp_path / "config.json").write_text('{"model_type": "abacus"}')
    empty = ResolvedModel("empty", "llm", "local", tmp_path)
    for load in (load_decoder, load_causal_lm, load_embedder):
        with pytest.raises(ModelNotFoundError, match=r"model 'empty' in .* cannot be loaded"):
            load(empty)


def test_pickled_weights_are_never_read(tiny: ResolvedModel, tmp_path: Path) -> None:
    shutil.copytree(tiny.path, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    torch.save({}, tmp_path / "model" / "pytorch_model.bin")
    with pytest.raises(ModelNotFoundError, match="cannot be loaded"):
        load_decoder(ResolvedModel("pickled", "llm", "local", tmp_path / "model"))


def test_loading_is_quiet_and_leaves_the_settings_alone(tiny: ResolvedModel, capfd: pytest.CaptureFixture[str]) -> None:
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled
    from transformers.utils import logging as settings

    found = settings.get_verbosity()
    settings.set_verbosity(logging.INFO)
    try:
        before = (settings.get_verbosity(), settings.is_progress_bar_enabled(), are_progress_bars_disabled())
        capfd.readouterr()
        load_decoder(tiny)
        with pytest.raises(ModelNotFoundError):
            load_decoder(ResolvedModel("absent", "llm", "local", tiny.path / "absent"))
        assert capfd.readouterr() == ("", "")
        with quiet(), quiet():
            assert settings.get_verbosity() == logging.ERROR
        assert before == (settings.get_verbosity(), settings.is_progress_bar_enabled(), are_progress_bars_disabled())
    finally:
        settings.set_verbosity(found)


def test_smollm2_knows_the_capital_of_france(smollm2: ResolvedModel) -> None:
    """The tied output matrix, the rotary layout and the tokenizer are right, or this sentence is not."""
    model, tokenizer = load_causal_lm(smollm2)
    ids = torch.tensor([tokenizer("The capital of France is", add_special_tokens=False)["input_ids"]])
    with torch.inference_mode():
        answer = tokenizer.decode([int(model(ids).logits[0, -1].argmax())])
    assert answer == " Paris"
    weights = dict(model.named_parameters(remove_duplicate=False))
    assert weights["lm_head.weight"] is weights["model.embed_tokens.weight"]


def test_embedder_folder_loads(minilm: ResolvedModel) -> None:
    model = load_embedder(minilm)
    assert model.encode(["a text"]).shape == (1, 384)
    assert not model.training
