"""Folders of tiny models with random weights, saved the way real ones are, over the embedded models' tokenizers."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, LlamaConfig, LlamaModel

from rag.models.quiet import quiet


def save_cross_encoder(tokenizer_of: Path, folder: Path, *, tokens: int = 64, labels: int = 1) -> Path:
    """A BERT cross-encoder that reads ``tokens`` at once; its weights are large enough that pairs differ clearly."""
    tokenizer = AutoTokenizer.from_pretrained(str(tokenizer_of))
    tokenizer.model_max_length = tokens
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=tokens,
        num_labels=labels,
    )
    model = BertForSequenceClassification(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.normal_(0, 0.5 if "classifier" in name else 0.2)
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def save_decoder(tokenizer_of: Path, folder: Path) -> Path:
    """A Llama of one layer without a language-model head."""
    tokenizer = AutoTokenizer.from_pretrained(str(tokenizer_of))
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    with quiet():
        LlamaModel(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder
