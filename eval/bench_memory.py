"""Resident memory of an engine under a cache budget, each case in a process of its own.

What the engine promises is the cache's budget, the model, and a bounded rest. The rest is reported whole and without
what any program pays that imports torch and transformers' model loader before it has loaded anything.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ACCEPTED_EXCESS = 300 << 20
"""Bytes that may be resident beside the cache's budget and the model."""
SHARES = (0.25, 1.0)
"""Budgets that are measured, as parts of what one list takes."""


@dataclass(frozen=True, slots=True)
class MemoryCase:
    """Two lists of ``passages`` are read one after the other, under a cache that holds ``share`` of one."""

    model: str
    device: str
    passages: int
    tokens: int
    share: float


@dataclass(frozen=True, slots=True)
class Memory:
    """What a process held after a `MemoryCase`, in bytes.

    ``list_bytes`` is what the keys and values of one list take: a query needs all of them at once, while it runs.
    ``model_bytes`` are all weights; those of layers that are not read stay on the disk. ``imports`` was resident once
    torch and transformers were imported, ``resident`` once a short list was read after two long ones, ``peak`` is the
    most that ever was (None where the system does not say).
    """

    case: MemoryCase
    list_tokens: int
    list_bytes: int
    budget_bytes: int
    cache_bytes: int
    model_bytes: int
    imports: int
    resident: int
    peak: int | None

    @property
    def excess(self) -> int:
        """What stays resident beside the model and the budget."""
        return self.resident - self.model_bytes - self.budget_bytes

    @property
    def peak_excess(self) -> int | None:
        """The most that ever was beside the model and the budget, or the list where that is larger."""
        return None if self.peak is None else self.peak - self.model_bytes - max(self.budget_bytes, self.list_bytes)

    def row(self) -> dict[str, Any]:
        """Flat figures in MiB for a table or JSON."""
        sizes = {
            "budget_mib": self.budget_bytes,
            "cache_mib": self.cache_bytes,
            "list_mib": self.list_bytes,
            "model_mib": self.model_bytes,
            "resident_mib": self.resident,
            "peak_mib": self.peak,
            "excess_mib": self.excess,
            "peak_excess_mib": self.peak_excess,
            "imports_mib": self.imports,
        }
        return {
            "passages": self.case.passages,
            "tokens": self.list_tokens,
            **{name: None if size is None else size / 2**20 for name, size in sizes.items()},
            "within": self.excess <= ACCEPTED_EXCESS,
        }


def memory(
    model: str, device: str, counts: Sequence[int], tokens: int = 100, step: Callable[[str], None] = lambda _: None
) -> list[Memory]:
    """Measure every number of passages in ``counts`` under every budget of `SHARES`, each in a fresh process, one at a
    time: nothing of an earlier one is left.
    """
    spawn = multiprocessing.get_context("spawn")
    measured = []
    for case in (MemoryCase(model, device, count, tokens, share) for count in counts for share in SHARES):
        step(f"memory: {case.passages} passages, a cache for {case.share:.0%} of them")
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            measured.append(pool.submit(_measure, case).result())
    return measured


def _measure(case: MemoryCase) -> Memory:
    import torch  # noqa: F401 - what is measured first is the cost of these imports
    import transformers.modeling_utils  # noqa: F401

    process = psutil.Process()
    imports = process.memory_info().rss

    from rag.attention.decoder import Decoder
    from rag.attention.engine import AttentionEngine
    from rag.attention.heads import default_heads
    from rag.attention.template import DEFAULT_TEMPLATE
    from rag.attention.types import AttentionSpec
    from rag.demo_data import demo_corpus
    from rag.eval.bench_engine import QUERIES, passages
    from rag.types import Query

    decoder = Decoder.load(case.model, device=case.device)
    heads = default_heads(decoder.fingerprint, DEFAULT_TEMPLATE.digest(), "block", "document")

    def count(texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in decoder.tokenizer(list(texts), add_special_tokens=False)["input_ids"]]

    documents = passages([item.text for item in demo_corpus()], 2 * case.passages, case.tokens, count)
    first, second = documents[: case.passages], documents[case.passages :]
    held = sum(count([item.text for item in second]))
    list_bytes = held * decoder.token_bytes(max(head.layer for head in heads) + 1, "float32")
    window = min(512, 2 * case.tokens)
    least = window * decoder.token_bytes(decoder.layers, "float32")  # below that an engine refuses the budget
    budget = max(int(case.share * list_bytes), least)
    engine = AttentionEngine(decoder, window_tokens=window, overlap_tokens=window // 8, cache_bytes=budget)
    for some in (first, second, first[:1]):  # the second list drives the first one out of the cache
        engine.attend(Query(QUERIES[0]), some, AttentionSpec(heads, calibrated=True))
    return Memory(
        case,
        held,
        list_bytes,
        budget,
        engine.cache_stats().bytes,
        sum(weight.nbytes for weight in decoder.model.parameters()),
        imports,
        process.memory_info().rss,
        _peak(),
    )


def _peak() -> int | None:
    """The most bytes that this process ever held, where Linux says so (getrusage's figure outlives exec)."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), None)
