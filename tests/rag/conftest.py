"""A real attention engine around a tiny random Llama and a tokenizer trained on the spot."""

from __future__ import annotations

import pytest

from rag.attention.engine import AttentionEngine
from rag.types import Document

PASSAGES = (
    "The harbour is fourteen metres deep. Large ships enter it at high tide. The pier was rebuilt in 1932.",
    "Boats are painted blue in the village. Fishermen mend their nets on the quay.",
    "The lighthouse lamp burned whale oil until 1911. Its keeper lived alone.",
    "Bread is baked before dawn. The baker sells it at the harbour market.",
)


@pytest.fixture(scope="session")
def engine() -> AttentionEngine:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoModel, LlamaConfig, PreTrainedTokenizerFast

    from rag.attention.engine import Decoder
    from rag.attention.passes import IMPLEMENTATION

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        PASSAGES, trainers.BpeTrainer(vocab_size=400, special_tokens=["<s>"], initial_alphabet=alphabet)
    )
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=400,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
    )
    model = AutoModel.from_config(config, attn_implementation=IMPLEMENTATION).eval()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")
    return AttentionEngine(Decoder(model, fast, "tiny", "0" * 16), window_tokens=64, overlap_tokens=8)


@pytest.fixture
def documents() -> list[Document]:
    return [Document(name, text) for name, text in zip("abcd", PASSAGES, strict=True)]
