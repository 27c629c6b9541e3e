"""Attention adapters: their numbers against merged weights, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from rag.attention.adapter import AdapterInfo, AttentionAdapter, Factors, Projection, TaskHeads
from rag.attention.decoder import Decoder
from rag.attention.engine import AttentionEngine
from rag.attention.template import DEFAULT_TEMPLATE
from rag.attention.types import AttentionSpec, Head
from rag.errors import ArtefactError
from rag.models.resolve import ResolvedModel
from rag.types import Document, Query

DOCUMENTS = (
    Document("a", "The harbour is fourteen metres deep. Large ships can enter it at high tide.", "Harbour"),
    Document("b", "Boats."),
    Document("c", "The lighthouse was built in 1856 and its lamp burned whale oil until 1911.", "Lighthouse"),
)
QUERY = Query("How deep is the harbour?")
SPEC = AttentionSpec(rows=("all",), calibrated=True)
HEADS = TaskHeads(heads=(Head(1, 0), Head(2, 3)), weights=(2.0, -0.5), temperature=0.7)
PLACES = (Projection(0, "k_proj"), Projection(0, "q_proj"), Projection(2, "q_proj"), Projection(2, "k_proj"))


@pytest.fixture(scope="module")
def tokenizer(smollm2: ResolvedModel):
    return AutoTokenizer.from_pretrained(smollm2.path)


def bare(family: str, tokenizer) -> Decoder:
    return Decoder(tiny.decoder(family), tokenizer, family, f"fingerprint of {family}")


def info(family: str = "llama", **changes) -> AdapterInfo:
    return AdapterInfo(
        **{
            "model": family,
            "fingerprint": f"fingerprint of {family}",
            "template": DEFAULT_TEMPLATE.digest(),
            "layout": "block",
            "alpha": 6.0,
            "exit_layer": 2,
            "tasks": {"document": HEADS},
            "method": "random numbers",
            "data": "none",
            **changes,
        }
    )


def linear(model: torch.nn.Module, place: Projection) -> torch.nn.Linear:
    return model.get_submodule(f"layers.{place.layer}.self_attn.{place.name}")


def random_adapter(decoder: Decoder, *, zero: bool = False, **changes) -> AttentionAdapter:
    torch.manual_seed(5)
    factors = {}
    for place in PLACES:
        outputs, inputs = linear(decoder.model, place).weight.shape
        factors[place] = Factors(torch.randn(3, inputs) * 0.3, torch.randn(outputs, 3) * (0 if zero else 0.3))
    return AttentionAdapter(info(decoder.name, **changes), factors)


def merged(model: torch.nn.Module, adapter: AttentionAdapter) -> torch.nn.Module:
    with torch.no_grad():
        for place, (down, up) in adapter.factors.items():
            linear(model, place).weight += up @ down * adapter.info.alpha / 3
    return model


def make(model: Decoder, path: Path | None = None, **options) -> AttentionEngine:
    return AttentionEngine(model, adapter=path, split=tiny.split_words, window_tokens=96, overlap_tokens=8, **options)


@pytest.fixture
def saved(tmp_path: Path):
    def save(adapter: AttentionAdapter) -> Path:
        adapter.save(tmp_path / "adapter.safetensors")
        return tmp_path / "adapter.safetensors"

    return save


def test_an_adapter_of_zeros_changes_no_number(tokenizer, saved):
    decoder = bare("llama", tokenizer)
    expected = make(decoder).attend(QUERY, DOCUMENTS, SPEC)
    found = make(decoder, saved(random_adapter(decoder, zero=True))).attend(QUERY, DOCUMENTS, SPEC)
    assert torch.equal(found.rows["all"], expected.rows["all"])
    assert torch.equal(found.calibration["all"], expected.calibration["all"])


def test_rows_equal_eager_attention_with_merged_weights(tokenizer, saved):
    decoder = bare("llama", tokenizer)
    adapter = random_adapter(decoder, layout="causal")
    engine = make(decoder, saved(adapter), layout="causal")
    found = engine.attend(QUERY, DOCUMENTS, SPEC)
    plain = make(decoder, layout="causal").attend(QUERY, DOCUMENTS, SPEC).rows["all"]
    prompter = engine._prompter
    blocks = [token for windows in prompter.blocks(DOCUMENTS) for window in windows for token in window.ids]
    query = prompter.query(QUERY)
    ids = [*prompter.prefix, *blocks, *prompter.stem, *query]
    model = merged(tiny.decoder("llama", "eager"), adapter)
    with torch.no_grad():
        layers = model(torch.tensor([ids]), output_attentions=True).attentions
    columns = slice(len(prompter.prefix), len(prompter.prefix) + len(blocks))
    expected = torch.cat([layer[0, :, -len(query) :, columns] for layer in layers])
    torch.testing.assert_close(found.rows["all"], expected, atol=1e-5, rtol=1e-4)
    assert float((plain - expected).abs().max()) > 0.05  # the adapter changes a lot: equality means something


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral", "gemma3"])
def test_every_family_reads_as_with_merged_weights(family, tokenizer, saved):
    decoder = bare(family, tokenizer)
    adapter = random_adapter(decoder)
    found = make(decoder, saved(adapter)).attend(QUERY, DOCUMENTS, SPEC)
    other = Decoder(merged(tiny.decoder(family), adapter), tokenizer, family, "")
    expected = make(other).attend(QUERY, DOCUMENTS, SPEC)
    torch.testing.assert_close(found.rows["all"], expected.rows["all"], atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(found.calibration["all"], expected.calibration["all"], atol=1e-5, rtol=1e-3)


def test_the_decoder_given_stays_as_it_is_and_shares_its_weights(tokenizer, saved):
    decoder = bare("llama", tokenizer)
    before = make(decoder).attend(QUERY, DOCUMENTS, SPEC).rows["all"]
    engine = make(decoder, saved(random_adapter(decoder)))
    assert type(linear(decoder.model, PLACES[0])) is torch.nn.Linear
    assert torch.equal(make(decoder).attend(QUERY, DOCUMENTS, SPEC).rows["all"], before)
    theirs, ours = dict(decoder.model.named_parameters()), dict(engine.decoder.model.named_parameters())
    assert ours["embed_tokens.weight"] is theirs["embed_tokens.weight"]
    assert ours["layers.2.self_attn.q_proj.base.weight"] is theirs["layers.2.self_attn.q_proj.weight"]
    assert not any(parameter.requires_grad for name, parameter in ours.items() if name.endswith((".down", ".up")))


def test_fingerprints_tell_adapters_apart_and_only_by_what_changes_numbers(tokenizer):
    decoder = bare("llama", tokenizer)
    adapter = random_adapter(decoder)
    reweighted = AttentionAdapter(info(tasks={}, data="other"), adapter.factors)
    louder = AttentionAdapter(info(alpha=7.0), adapter.factors)
    fewer = AttentionAdapter(info(), {place: adapter.factors[place] for place in PLACES[1:]})
    prints = [each.apply(decoder).fingerprint for each in (adapter, reweighted, louder, fewer)]
    assert prints[0] == prints[1]
    assert len({*prints, decoder.fingerprint}) == 4


def test_saved_and_loaded_it_is_the_same(tokenizer, saved):
    adapter = random_adapter(bare("llama", tokenizer))
    loaded = AttentionAdapter.load(saved(adapter))
    assert loaded.info == adapter.info
    assert set(loaded.factors) == set(PLACES)
    for place in PLACES:
        assert all(torch.equal(a, b) for a, b in zip(loaded.factors[place], adapter.factors[place], strict=True))
    assert loaded.digest() == adapter.digest()


def test_its_heads_and_weights_are_the_default_ones(tokenizer, saved):
    decoder = bare("llama", tokenizer)
    engine = make(decoder, saved(random_adapter(decoder)))
    assert engine.choose_heads("document", None) == engine.default_heads("document") == HEADS.heads
    assert engine.default_weights("document") == (2.0, -0.5)
    assert engine.default_weights("sentence") is None
    assert make(decoder).default_weights("document") is None


def test_blocks_of_the_bare_model_are_never_taken_for_those_of_the_adapted(tokenizer, saved, tmp_path):
    decoder, store = bare("llama", tokenizer), tmp_path / "store"
    path = saved(random_adapter(decoder))
    make(decoder).precompute(DOCUMENTS, store, depth=3)
    with pytest.raises(ArtefactError, match=r"fingerprint of llama"):
        make(decoder, path, store=store)
    own = tmp_path / "own"
    engine = make(decoder, path)
    report = engine.precompute(DOCUMENTS, own)
    assert report.blocks == 3
    again = make(decoder, path, store=own)
    reading = AttentionSpec(HEADS.heads, ("mean",))
    found = again.attend(QUERY, DOCUMENTS, reading)
    assert found.encoded_tokens == 0  # as deep as the exit layer, which the heads do not pass
    torch.testing.assert_close(found.rows["mean"], engine.attend(QUERY, DOCUMENTS, reading).rows["mean"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fingerprint": "other"}, "of 'llama': expected model other, found fingerprint of llama"),
        ({"template": "other"}, r"expected prompt template other, found [0-9a-f]{16}"),
        ({"layout": "causal"}, "expected layout causal, found block"),
    ],
)
def test_an_adapter_for_something_else_is_refused(change, message, tokenizer, saved):
    decoder = bare("llama", tokenizer)
    with pytest.raises(ArtefactError, match=message):
        make(decoder, saved(random_adapter(decoder, **change)))


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        (
            {Projection(1, "q_proj"): ((2, 32), (31, 2))},
            "1.q_proj: .* 32 inputs and 31 outputs, found 32 and 32",
        ),
        (
            {Projection(9, "k_proj"): ((2, 32), (16, 2))},
            "9.k_proj: expected such .*, found none in LlamaModel",
        ),
    ],
)
def test_an_adapter_that_does_not_fit_the_model_is_refused(factors, message, tokenizer):
    made = {place: Factors(*(torch.zeros(shape) for shape in shapes)) for place, shapes in factors.items()}
    adapter = AttentionAdapter(info(exit_layer=9), made)
    with pytest.raises(ArtefactError, match=message):
        adapter.apply(bare("llama", tokenizer))


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        (Factors(torch.zeros(2, 32), torch.zeros(32, 3)), r"found down \(2, 32\) and up \(32, 3\)"),
        (Factors(torch.zeros(2, 32), torch.full((32, 2), float("nan"))), "expected finite numbers"),
        (Factors(torch.zeros(2), torch.zeros(32, 2)), r"found down \(2,\)"),
    ],
)
def test_factors_that_make_no_sense_are_refused(factors, message):
    with pytest.raises(ArtefactError, match=f"adapter, 1.q_proj: .*{message}"):
        AttentionAdapter(info(), {Projection(1, "q_proj"): factors})
    fine = Factors(torch.zeros(2, 32), torch.zeros(32, 2))
    with pytest.raises(ArtefactError, match=r"3.q_proj: expected layers up to 2"):
        AttentionAdapter(info(), {Projection(3, "q_proj"): fine})


def test_files_that_are_no_adapters_are_named(tokenizer, saved, tmp_path):
    path = saved(random_adapter(bare("llama", tokenizer)))
    tensors, good = load_file(path), json.loads(info().model_dump_json())
    above = {**good, "tasks": {"document": {"heads": [[3, 0]], "weights": [1.0]}}}
    uneven = {**good, "tasks": {"document": {"heads": [[1, 0]], "weights": [1.0, 2.0]}}}
    alone = {name: tensor for name, tensor in tensors.items() if name != "0.q_proj.up"}
    for number, (held, described, message) in enumerate(
        (
            (tensors, above, "heads 3-0 are above the exit layer 2"),
            (tensors, uneven, "1 heads have 2 weights"),
            (tensors, {**good, "alpha": 0}, "alpha"),
            (tensors, {**good, "format": "rag.adapter/9"}, "rag.adapter/1"),
            ({**tensors, "0.v_proj.up": torch.zeros(1)}, good, "named like 3.q_proj.down, found 0.v_proj.up"),
            (alone, good, "found one of them of 0.q_proj"),
        )
    ):
        file = tmp_path / f"{number}.safetensors"
        save_file(held, file, {"rag.adapter": json.dumps(described)})
        with pytest.raises(
            ArtefactError, match=rf"{number}\.safetensors is not an attention adapter: [\s\S]*{message}"
        ):
            AttentionAdapter.load(file)
    save_file(tensors, tmp_path / "plain.safetensors")
    path.write_bytes(path.read_bytes()[:-100])
    for name in ("plain.safetensors", "adapter.safetensors", "absent.safetensors"):
        with pytest.raises(ArtefactError, match=f"{name} is not an attention adapter"):
            AttentionAdapter.load(tmp_path / name)
