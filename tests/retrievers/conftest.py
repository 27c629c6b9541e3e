"""A small corpus, and an embedding function simple enough to work out by hand."""

from __future__ import annotations

import pytest
from word_embedder import WordEmbedder

from rag.types import Document


@pytest.fixture(scope="session")
def make_embedder() -> type[WordEmbedder]:
    return WordEmbedder


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
def corpus() -> list[Document]:
    return [
        Document("tide", "The tide tables list high water for every harbour on the coast.", title="Tides"),
        Document("lamp", "A lamp in the lighthouse turns twice a minute."),
        Document("boats", "Fishing boats wait for high water before they leave the harbour."),
        Document("blank", "   "),
        Document("bread", "Bread is baked from flour, water, salt and yeast."),
    ]
