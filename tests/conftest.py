"""Fixtures that every folder of tests shares: the two embedded models, fetched once per machine."""

from __future__ import annotations

import pytest
from hypothesis import settings

from rag.models import DEFAULT_EMBEDDER, DEFAULT_LLM, ResolvedModel, resolve

# How long an example takes says something about the machine, and nothing about the code.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def smollm2() -> ResolvedModel:
    """SmolLM2-135M-Instruct from the default store (a first run downloads and converts it)."""
    return resolve(DEFAULT_LLM, kind="llm")


@pytest.fixture(scope="session")
def minilm() -> ResolvedModel:
    """all-MiniLM-L6-v2 from the default store (a first run downloads it)."""
    return resolve(DEFAULT_EMBEDDER, kind="embedder")
