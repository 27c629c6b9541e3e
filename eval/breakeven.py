"""Does compressing pay? Seconds it takes against the prefill it saves, over input length and reader.

Everything is measured on this machine in one run: what the compressor takes where its reranker has already run and
where it works alone, over documents that have been read before and that have not, and the prefill of the attention
model's own weights. Readers of other sizes are either stated (a prefill rate) or estimated from the measured one,
seconds growing with the number of parameters, as prefill is bound by arithmetic: about 2 operations per parameter and
token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from rag.budget import Budget
from rag.errors import InputError
from rag.eval.bench_engine import Timing, passages, timed
from rag.stages import Compressor, Reranker
from rag.types import Document, Query, ScoredDocument, ranked

if TYPE_CHECKING:
    from rag.attention.engine import AttentionEngine


@dataclass(frozen=True, slots=True)
class Length:
    """One input length: tokens of the documents before and after compression, and the seconds of each part.

    ``after_reranker``: the compressor, reading the pass that its reranker has run, over documents that it has seen
    before; ``after_reranker_new``: over documents that only the reranker has read. ``warm``,
    ``cold``: the compressor by itself, over documents that have been read before and that have not. ``prefill``: the
    attention model as a reader of all tokens; ``prefill_kept``: of the kept ones.
    """

    tokens: int
    kept: int
    after_reranker: Timing
    after_reranker_new: Timing
    warm: Timing
    cold: Timing
    prefill: Timing
    prefill_kept: Timing

    @property
    def saved(self) -> float:
        """Median prefill seconds saved with the measured model as reader."""
        return self.prefill.median - self.prefill_kept.median

    def row(self) -> dict[str, Any]:
        """Flat figures: median seconds, the share of the saved prefill that each way of compressing takes, spreads.

        ``*_break_even`` is the reader's prefill rate (tokens a second) below which compressing saves time.
        """
        figures: dict[str, Any] = {
            "tokens": self.tokens,
            "kept": self.kept,
            "prefill_s": self.prefill.median,
            "prefill_kept_s": self.prefill_kept.median,
            "saved_s": self.saved,
        }
        spreads = [self.prefill.spread, self.prefill_kept.spread]
        for name in WAYS:
            timing: Timing = getattr(self, name)
            spreads.append(timing.spread)
            figures[f"{name}_s"] = timing.median
            figures[f"{name}_share"] = timing.median / self.saved if self.saved > 0 else None
            figures[f"{name}_break_even"] = (self.tokens - self.kept) / timing.median
        return figures | {"spread": max(spreads)}


WAYS = ("after_reranker", "after_reranker_new", "warm", "cold")
"""The ways of compressing that are timed."""


@dataclass(frozen=True, slots=True)
class ReaderRate:
    """A reader by its prefill rate in tokens a second, measured or stated; an estimate is marked as such."""

    name: str
    tokens_per_second: float
    estimated: bool = False

    def saved(self, length: Length) -> float:
        """Seconds of prefill that compression saves this reader."""
        return (length.tokens - length.kept) / self.tokens_per_second


def measure(
    engine: AttentionEngine,
    compressor: Compressor,
    reranker: Reranker | None,
    prefill: Prefill,
    texts: Sequence[str],
    lengths: Sequence[int],
    *,
    ratio: float = 0.2,
    passage_tokens: int = 100,
    repeats: int = 3,
    query: str = "How many people lived in the city before the war?",
    forget: Callable[[], None] | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> list[Length]:
    """Time compression and prefill for inputs of about ``lengths`` tokens.

    Args:
        engine: the attention engine.
        compressor: what is timed.
        reranker: what has run before in ``after_reranker``; None for only the compressor's own reading.
        prefill: the reader whose prefill is timed.
        texts: sentences are drawn from them.
        lengths: tokens of all passages together, at most (unless that is less than one passage).
        ratio: share of the tokens that is kept.
        passage_tokens: of one passage, about.
        repeats: of each measurement.
        query: a question; which one hardly matters for the time.
        forget: empties all that is remembered of documents; by default the engine's cache alone.
        step: is told what is being measured.

    Raises:
        InputError: a length that is below one passage, or longer than the model reads.
    """
    question = Query(query)
    forget = forget or engine.clear_cache
    measured = []
    for wanted in lengths:
        if not passage_tokens <= wanted <= prefill.positions:
            raise InputError(f"input of {wanted} tokens; accepted: {passage_tokens} to {prefill.positions}")
        documents = _passages(engine, texts, wanted, passage_tokens)
        given = ranked(documents, [0.0] * len(documents))
        budget = Budget(ratio, "ratio")
        step(f"{wanted} tokens: compression")
        kept = compressor.compress(question, given, budget)
        tokens = sum(engine.count_tokens([document.text for document in documents]))
        left = sum(item.tokens_after for item in kept)

        alone = partial(compressor.compress, question, given, budget)
        warm = timed(alone, repeats)
        cold = timed(alone, repeats, forget)
        after = partial(_after_reranker, engine, compressor, reranker, question, given, budget, repeats)
        step(f"{wanted} tokens: prefill")
        measured.append(
            Length(
                tokens,
                left,
                after(lambda: None),
                after(forget),
                warm,
                cold,
                timed(partial(prefill, tokens), repeats),
                timed(partial(prefill, left), repeats),
            )
        )
    return measured


def _passages(engine: AttentionEngine, texts: Sequence[str], tokens: int, each: int) -> list[Document]:
    """As many passages as have ``tokens`` tokens together at most, one at least."""
    made = passages(texts, max(1, tokens // each), each, engine.count_tokens)
    sizes = accumulate(engine.count_tokens([document.text for document in made]))
    return [document for document, size in zip(made, sizes, strict=True) if size <= tokens] or made[:1]


def _after_reranker(
    engine: AttentionEngine,
    compressor: Compressor,
    reranker: Reranker | None,
    query: Query,
    given: Sequence[ScoredDocument],
    budget: Budget,
    repeats: int,
    before: Callable[[], None],
) -> Timing:
    """The compressor's seconds over a pass that has already run, as in a pipeline; ``before`` goes before that pass."""
    from rag.attention.shared import SharedPass

    specs = [spec for stage in (reranker, compressor) if (spec := getattr(stage, "spec", None)) is not None]
    seconds: list[float] = []
    for _ in range(repeats):
        before()
        shared = SharedPass(engine, query, specs)
        ranking = reranker.rerank(query, given, attender=shared) if reranker else list(given)
        if specs:
            shared.attend(query, [item.document for item in ranking], specs[-1])
        seconds += timed(partial(compressor.compress, query, ranking, budget, attender=shared), 1).seconds
    return Timing(tuple(seconds))


class Prefill:
    """One forward pass of the engine's own weights as a reader runs it: all layers, causal, keys and values kept."""

    def __init__(self, engine: AttentionEngine) -> None:
        from rag.models import resolve
        from rag.models.load import load_causal_lm

        decoder = engine.decoder
        info = engine.info()
        # Loaded anew, with transformers' own attention: the engine's weights run through the engine's kernels.
        self._model, _ = load_causal_lm(resolve(decoder.name, kind="llm"), device=info["device"], dtype=info["dtype"])
        self.positions = decoder.positions
        self.parameters = sum(weight.numel() for weight in self._model.parameters())

    def __call__(self, tokens: int) -> None:
        """Read a prompt of ``tokens`` tokens and give the logits of the next one."""
        import torch

        ids = (torch.arange(tokens, device=self._model.device) % 1000 + 100)[None]
        with torch.inference_mode():
            logits = self._model(ids, use_cache=True, logits_to_keep=1).logits
        logits.sum().item()  # waits for the device


def rates(
    lengths: Sequence[Length], parameters: int, stated: Mapping[str, float], sizes: Mapping[str, float]
) -> list[ReaderRate]:
    """Readers for the break-even table: the measured model, stated rates, and sizes estimated from the measured model.

    The measured rate is that of the longest input. ``sizes`` maps a name to a number of parameters.

    Raises:
        InputError: no measured length, or a rate or size that is not above 0.
    """
    if not lengths:
        raise InputError("no input length was measured")
    for name, value in {**stated, **sizes}.items():
        if not 0 < value < float("inf"):
            raise InputError(f"reader {name!r}: rate or size must be a finite number above 0, given {value}")
    longest = max(lengths, key=lambda item: item.tokens)
    measured = longest.tokens / longest.prefill.median
    return [
        ReaderRate("the same model", measured),
        *(ReaderRate(name, rate) for name, rate in stated.items()),
        *(ReaderRate(name, measured * parameters / size, estimated=True) for name, size in sizes.items()),
    ]
