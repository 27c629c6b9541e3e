"""LLMLingua and LongLLMLingua as baselines: the package `llmlingua` (an optional extra) over one of our models.

They drop tokens, not sentences, and give text that need not be grammatical nor be found in the source. Their output
is no set of spans, so `LlmLingua` is not a `Compressor` and not in the registry: it is for evaluations, which compare
it by its text (is the answer's string still in it, what does a reader make of it) and its size.
"""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from rag.budget import Budget
from rag.errors import BudgetError, ConfigError
from rag.models.catalog import DEFAULT_LLM
from rag.models.quiet import quiet
from rag.types import Document, Query

Method = Literal["llmlingua", "longllmlingua"]

# What the authors recommend for LongLLMLingua (issues 7 and 12 of the package); LLMLingua has the package's defaults.
# `context_budget` is passed to eval() by the package, so it is a constant here and never a caller's.
_OPTIONS: dict[Method, dict[str, Any]] = {
    "llmlingua": {"rank_method": "llmlingua"},
    "longllmlingua": {
        "rank_method": "longllmlingua",
        "condition_in_question": "after_condition",
        "reorder_context": "sort",
        "dynamic_context_compression_ratio": 0.3,
        "condition_compare": True,
        "context_budget": "+100",
    },
}


@dataclass(frozen=True, slots=True)
class RewrittenContext:
    """The text that a token-dropping baseline gave, its size, and the budget in tokens that it was given."""

    text: str
    tokens: int
    limit: int

    @property
    def within(self) -> bool:
        """False where the baseline overshot its budget whatever it was asked for."""
        return self.tokens <= self.limit


class LlmLingua:
    """Token-level compression by perplexity (Jiang et al., EMNLP 2023), or LongLLMLingua (Jiang et al., ACL 2024).

    Needs ``pip install rag-context[llmlingua]``; the model is loaded at the first use. Safe for several threads,
    which take turns.

    Args:
        model: a model name (see `rag.models.resolve`); the papers use models of 7B, not of 135M.
        method: "llmlingua" knows nothing of the question, "longllmlingua" ranks documents and tokens by it.
        device: a torch device.
        attempts: how often it is asked, at most, to come within a budget.

    The package misses its target, most where little may be kept (its issue 195). To compare at one budget, it is
    asked again for less, by the share that it went over, while there are ``attempts`` left;
    `RewrittenContext.within` says whether that was enough.

    Raises:
        ConfigError: an unknown method, no attempt; on use, that the package is not installed.
    """

    def __init__(
        self,
        model: str = DEFAULT_LLM,
        *,
        method: Method = "longllmlingua",
        device: str = "cpu",
        attempts: int = 3,
    ) -> None:
        if method not in get_args(Method):
            raise ConfigError(f"method {method!r}; accepted: {', '.join(get_args(Method))}")
        if attempts < 1:
            raise ConfigError(f"attempts must be at least 1, given {attempts}")
        self.model = model
        self.method = method
        self.device = device
        self.attempts = attempts
        self._lock = threading.Lock()

    def compress(self, query: Query, documents: Sequence[Document], budget: Budget) -> RewrittenContext:
        """Rewrite the documents, in rank order, to about ``budget`` tokens of the model's tokenizer.

        No document, or only blank ones, gives an empty text.

        Raises:
            BudgetError: a budget in characters, which the package does not know.
        """
        if budget.unit == "characters":
            raise BudgetError(f"LLMLingua counts tokens; given a budget of {budget.amount} characters")
        texts = [document.text for document in documents if document.text.strip()]
        with self._lock:
            total = sum(map(self._size, texts))
            limit = budget.limit(total)
            if total <= limit:
                return RewrittenContext("\n\n".join(texts), total, limit)
            asked = float(limit)
            for _ in range(self.attempts):
                text = self._rewrite(query.full_text, texts, asked)
                tokens = self._size(text)
                if tokens <= limit:
                    break
                asked *= 0.95 * limit / tokens
        return RewrittenContext(text, tokens, limit)

    def _size(self, text: str) -> int:
        return len(self._compressor.oai_tokenizer.encode(text))

    def _rewrite(self, question: str, texts: Sequence[str], target: float) -> str:
        long = self.method == "longllmlingua"
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the package names the cache as transformers 4 did
            done = self._compressor.compress_prompt(
                list(texts),
                question=question if long else "",
                target_token=target,
                concate_question=False,
                **_OPTIONS[self.method],
            )
        return str(done["compressed_prompt"])

    @cached_property
    def _compressor(self) -> Any:
        try:
            package = importlib.import_module("llmlingua")
        except ImportError:
            raise ConfigError("the package llmlingua is not installed: pip install rag-context[llmlingua]") from None
        return _adapted(package.PromptCompressor)(self.model, self.device)


def _adapted(base: Any) -> Any:
    """A subclass of the package's compressor (0.2.2) that runs without its network and with transformers 5.

    The package fetches OpenAI's tokenizer in its constructor to report sizes, allows remote code, reads
    ``config.architectures`` where a converted model has none, and takes the model's cache for a tuple of tensors, which
    it has not been for long (its issue 210): every text above one window of 200 tokens fails. The method is left as
    it is.
    """
    from transformers import DynamicCache

    from rag.models.load import load_causal_lm
    from rag.models.resolve import resolve

    class Cache(DynamicCache):
        """Layers as the package holds them: pairs of keys and values, which it slices."""

        def __init__(self, layers: Sequence[tuple[Any, Any]]) -> None:
            super().__init__(ddp_cache_data=[(keys, values) for keys, values in layers])

        def __getitem__(self, layer: int) -> tuple[Any, Any]:
            held: Any = self.layers[layer]
            return held.keys, held.values

    class Adapted(base):  # type: ignore[misc]
        """The package's compressor over `load_causal_lm`."""

        def __init__(self, name: str, device: str) -> None:
            self.model_name = name
            self.model, self.tokenizer = load_causal_lm(resolve(name, kind="llm"), device=device)
            self.tokenizer.padding_side = "left"
            self.tokenizer.pad_token_id = self.tokenizer.eos_token_id
            self.oai_tokenizer = _Sizes(self.tokenizer)
            self.device = device
            self.max_position_embeddings = self.model.config.max_position_embeddings
            self.use_llmlingua2 = False
            self.open_api_config: dict[str, Any] = {}
            self.retrieval_model = self.retrieval_model_name = None
            self.context_idxs: list[Any] = []
            self.cache_bos_num, self.prefix_bos_num = 10, 100

        def get_ppl(self, *args: Any, past_key_values: Any = None, return_kv: bool = False, **options: Any) -> Any:
            past = None if past_key_values is None else Cache(past_key_values)
            given = super().get_ppl(*args, past_key_values=past, return_kv=return_kv, **options)
            if not return_kv:
                return given
            loss, cache = given
            return loss, [(layer.keys, layer.values) for layer in cache.layers]

    return Adapted


class _Sizes:
    """Stands for the tokenizer that the package reports sizes in."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids
