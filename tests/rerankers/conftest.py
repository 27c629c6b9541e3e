from __future__ import annotations

import pytest

from rag.attention.engine import AttentionEngine


@pytest.fixture(scope="session")
def engine(smollm2) -> AttentionEngine:
    return AttentionEngine(str(smollm2.path))
