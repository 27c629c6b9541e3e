"""The comparison of a device with the CPU, run on the CPU itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag.demo_data import demo_corpus
from rag.eval.bench_gpu import WAYS, checks
from rag.models.resolve import ResolvedModel


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [document.text for document in demo_corpus()]


def test_the_cpu_agrees_with_itself_and_bfloat16_keeps_the_order(smollm2: ResolvedModel, texts):
    ways = [way for way in WAYS if way.layout == "block"]
    found = {check.path: check for check in checks(smollm2.name, "cpu", texts, documents=12, tokens=20, ways=ways)}
    assert len(found) == 4
    assert all(check.right for check in found.values()), found
    assert found["blocks, bfloat16"].error > 0.001 > found["blocks, float32, from a block store"].error


def test_what_is_too_far_off_is_not_right(smollm2: ResolvedModel, texts):
    strict = replace(WAYS[4], accepted=1e-6)
    (check,) = checks(smollm2.name, "cpu", texts, documents=12, tokens=20, ways=[strict])
    assert not check.right
    assert check.row()["right"] is False
