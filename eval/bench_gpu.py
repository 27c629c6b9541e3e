"""An accelerator against the CPU: every path of the engine must give the CPU's float32 numbers.

Written to be run once, in a few minutes, on a machine that is there for a short while.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from rag.attention.decoder import Decoder
from rag.attention.engine import AttentionEngine, AttentionRequest, Layout
from rag.attention.store import Precision
from rag.attention.template import DEFAULT_TEMPLATE, ICR_TEMPLATE
from rag.attention.types import AttentionMap, AttentionSpec
from rag.errors import ConfigError
from rag.eval.bench_engine import QUERIES, passages
from rag.models.load import DType
from rag.rerankers.scores import head_scores
from rag.types import Query

ACCEPTED_AGREEMENT = 0.8
"""Least mean Kendall's tau between the orders of the documents on CPU and accelerator: near ties may change places."""
_CACHE_BYTES = 4 << 30
_LEAST = 0.01


@dataclass(frozen=True, slots=True)
class Way:
    """One path through the engine, and the largest relative error (L1, of a head's attention) accepted of it."""

    name: str
    accepted: float
    layout: Layout = "block"
    dtype: DType = "float32"
    precision: Precision = "float32"
    store: bool = False


WAYS = (
    Way("blocks, float32", 1e-3),
    Way("blocks, float32, from a block store", 1e-3, store=True),
    Way("blocks, float32, int8 cache", 2e-2, precision="int8"),
    Way("causal, float32", 1e-3, layout="causal"),
    Way("blocks, bfloat16", 0.3, dtype="bfloat16", precision="bfloat16"),
    Way("causal, bfloat16", 0.3, layout="causal", dtype="bfloat16", precision="bfloat16"),
)
"""bfloat16 has 8 bits: single heads move by many per cent through 30 layers, the order of the documents must not."""


@dataclass(frozen=True, slots=True)
class Check:
    """How far a `Way` is from the CPU in float32 (with the same cache precision, but for bfloat16), cold and warm:
    the largest relative error of any head's attention, and the mean Kendall's tau between the orders of the documents.
    """

    path: str
    error: float
    accepted: float
    agreement: float

    def row(self) -> dict[str, Any]:
        """Flat figures for a table or JSON."""
        return asdict(self) | {"right": self.right}

    @property
    def right(self) -> bool:
        """Whether both are within what is accepted."""
        return self.error <= self.accepted and self.agreement >= ACCEPTED_AGREEMENT


def require_device(device: str) -> None:
    """Raise `ConfigError` for "cuda" on a machine without it, before anything is loaded."""
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(
            f"device {device!r} cannot be used: torch {torch.__version__} finds no CUDA device here; "
            "accepted: a machine with one and a torch built for it, or --device cpu or mps"
        )


def device_name(device: str) -> str:
    """What the device calls itself."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def checks(
    model: str,
    device: str,
    texts: Sequence[str],
    *,
    documents: int = 12,
    tokens: int = 100,
    ways: Sequence[Way] = WAYS,
    step: Callable[[str], None] = lambda _: None,
) -> list[Check]:
    """Compare every way with the CPU: four requests in one batch, two of them over one list, the others over lists of
    other lengths, with all heads, all kinds of rows and calibration; first cold, then warm.
    """
    step("loading")
    reference = Decoder.load(model)
    decoders = {dtype: Decoder.load(model, device=device, dtype=dtype) for dtype in {way.dtype for way in ways}}
    pool = passages(texts, documents, tokens, AttentionEngine(reference, cache_bytes=_CACHE_BYTES).count_tokens)
    spec = AttentionSpec(rows=("mean", "last", "all"), calibrated=True)
    lists = (pool, pool, pool[: documents // 2], pool[documents // 3 :])
    requests = [AttentionRequest(Query(text), tuple(some), spec) for text, some in zip(QUERIES, lists, strict=True)]
    exact: dict[tuple[Layout, Precision], list[AttentionMap]] = {}
    found = []
    for way in ways:
        step(way.name)
        same: Precision = "float32" if way.dtype == "bfloat16" else way.precision
        if (way.layout, same) not in exact:
            exact[way.layout, same] = _engine(reference, way.layout, same).attend_many(requests)
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) if way.store else None
            if store is not None:
                _engine(decoders[way.dtype], way.layout, way.precision).precompute(pool, store)
            engine = _engine(decoders[way.dtype], way.layout, way.precision, store)
            maps = [*engine.attend_many(requests), *engine.attend_many(requests)]
        pairs = list(zip(maps, 2 * exact[way.layout, same], strict=True))
        found.append(
            Check(
                way.name,
                max(relative_error(one, other) for one, other in pairs),
                way.accepted,
                fmean(agreement(one, other) for one, other in pairs),
            )
        )
    return found


def relative_error(found: AttentionMap, exact: AttentionMap) -> float:
    """The largest L1 distance of a row of any head, relative to that row's attention to the documents (to `_LEAST`
    where the row gives them less: of next to nothing, rounding is a large part).
    """
    errors = []
    for here, there in ((found.rows, exact.rows), (found.calibration or {}, exact.calibration or {})):
        for name, rows in there.items():
            errors.append(float(((here[name] - rows).abs().sum(-1) / rows.sum(-1).clamp_min(_LEAST)).max()))
    return max(errors)


def agreement(found: AttentionMap, exact: AttentionMap) -> float:
    """Kendall's tau of the documents' calibrated scores, summed over all heads."""
    from scipy.stats import kendalltau

    one, other = (head_scores(answer).sum(0).tolist() for answer in (found, exact))
    return float(kendalltau(one, other).statistic)


def _engine(decoder: Decoder, layout: Layout, precision: Precision, store: Path | None = None) -> AttentionEngine:
    template = ICR_TEMPLATE if layout == "causal" else DEFAULT_TEMPLATE
    return AttentionEngine(
        decoder, layout=layout, template=template, cache_bytes=_CACHE_BYTES, cache_precision=precision, store=store
    )
