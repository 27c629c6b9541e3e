"""The distracting effect: how much a document keeps a reader model from saying that it finds no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rag import registry
from rag.attention.types import Attender, AttentionSpec, Engine
from rag.config import Device, StageSettings
from rag.embedding import TextEmbedder
from rag.errors import ConfigError
from rag.models.catalog import DEFAULT_LLM
from rag.models.causal import CausalLM
from rag.rerankers.listwise import rerank_readable
from rag.rerankers.pointwise_windows import WINDOW_TOKENS, Frame, log_probabilities, require_window
from rag.rerankers.windows import over_windows
from rag.types import Document, Query, ScoredDocument

if TYPE_CHECKING:
    from rag.stages import Reranker

NO_RESPONSE = "NO-RESPONSE"
_INSTRUCTION = (
    "Answer the question directly, from the document alone: do not use your own knowledge. "
    f"If the document does not hold the answer, respond {NO_RESPONSE}.\n\nDocument:\n"
)
_QUESTION, _ANSWER = "\n\nQuestion: ", "\nAnswer:"


def distracting_effect(
    model: CausalLM, query: Query, documents: Sequence[Document], window_tokens: int = WINDOW_TOKENS
) -> list[float]:
    """1 - P(first token of NO-RESPONSE | instruction, document, query) of each document, in [0, 1].

    Amiraz et al., "The Distracting Effect: Understanding Irrelevant Passages in RAG", ACL 2025; the wording of the
    instruction is ours (the paper's exact prompt is UNVERIFIED). One forward pass per document, nothing is generated.
    A document longer than ``window_tokens`` counts as its most distracting window; one without text as 0.

    Compare documents of one query only, and only those that do not hold the answer: for those that do, the effect is
    high as well, as it should be. Small models hardly ever abstain: with SmolLM2-135M nearly everything is close
    to 1, and the order says more than the numbers.

    Raises:
        QueryTooLongError: query and window are longer than the model reads.
        ModelNotFoundError: the model cannot be had, or cannot be loaded.
    """
    readable = [place for place, document in enumerate(documents) if not document.is_empty]
    effects = [0.0] * len(documents)
    if not readable:
        return effects
    first_token = model.frame(NO_RESPONSE)[:1]
    logs, owners = log_probabilities(
        model, [documents[place] for place in readable], _frame(model, query), first_token, window_tokens
    )
    found, _ = over_windows((-logs[:, 0].double().expm1()).tolist(), owners, len(readable))
    for place, effect in zip(readable, found, strict=True):
        effects[place] = effect
    return effects


def risk_adjusted(scores: Sequence[float], effects: Sequence[float], weight: float) -> list[float]:
    """relevance - weight * effect * (1 - relevance), relevance being the scores scaled to [0, 1] within the list.

    A distracting document costs nothing where it is the most relevant one, and most where it is the least. Equal
    scores are a relevance of 0 for all. The formula is this project's.
    """
    low, high = min(scores), max(scores)
    relevance = [(score - low) / (high - low) if high > low else 0.0 for score in scores]
    return [value - weight * effect * (1 - value) for value, effect in zip(relevance, effects, strict=True)]


@registry.register("reranker", "distracting")
class DistractingReranker:
    """Notes each document's `distracting_effect` in its trace, under ``"distracting"``, beside its relevance.

    Ranks, scores and order stay as they are with ``weight`` 0; else documents are ranked by `risk_adjusted`.

    Args:
        engine, embedder: for the reranker named by ``after``.
        after: the reranker that gives relevance, by name or as ``{name: heads, options: {...}}``; None takes the
            incoming scores.
        model: the reader model that may be distracted, best the one that will answer. Loaded at the first use.
        device: where it runs; "auto" takes the best there is.
        weight: of the risk against relevance, 0 or more.
        batch_tokens: most tokens of one forward pass, padding counted.
        window_tokens: longer documents are read in overlapping windows.

    Raises:
        ConfigError: a negative weight, a bound too small, or ``after`` names no reranker.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        embedder: TextEmbedder | None = None,
        *,
        after: StageSettings | None = None,
        model: str = DEFAULT_LLM,
        device: Device = "auto",
        weight: float = 0.0,
        batch_tokens: int = 4096,
        window_tokens: int = WINDOW_TOKENS,
    ) -> None:
        if not 0 <= weight < float("inf"):
            raise ConfigError(f"weight of the risk must be a finite number of at least 0, given {weight}")
        self._weight = weight
        self._window_tokens = require_window(window_tokens)
        self._model = CausalLM(model, device, batch_tokens=batch_tokens)
        shared = {"engine": lambda: engine, "embedder": lambda: embedder}
        self._after: Reranker | None = None
        if after is not None:
            self._after = registry.build("reranker", after.name, after.options, shared)

    @property
    def spec(self) -> AttentionSpec | None:
        """What the reranker before reads; None where it reads no attention."""
        return getattr(self._after, "spec", None)

    def rerank(
        self, query: Query, documents: Sequence[ScoredDocument], *, attender: Attender | None = None
    ) -> list[ScoredDocument]:
        """See `rag.stages.Reranker`."""
        given = self._after.rerank(query, documents, attender=attender) if self._after else list(documents)
        effects = distracting_effect(self._model, query, [item.document for item in given], self._window_tokens)
        noted = [
            replace(item, trace={**item.trace, "distracting": effect})
            for item, effect in zip(given, effects, strict=True)
        ]
        return rerank_readable(noted, self._risk) if self._weight else noted

    def _risk(self, given: Sequence[ScoredDocument]) -> tuple[list[float], Mapping[str, Sequence[float]]]:
        scores, effects = [item.score for item in given], [item.trace["distracting"] for item in given]
        return risk_adjusted(scores, effects, self._weight), {}


def _frame(model: CausalLM, query: Query) -> Frame:
    """Instruction and question in the model's chat template, up to where its answer starts."""
    from rag.attention.prompt import chat_frame

    header, footer = chat_frame(model.tokenizer)
    question, _ = model.content(query.full_text)
    after = (*model.frame(_QUESTION), *question, *model.frame(_ANSWER + footer))
    return Frame(model.frame(header + _INSTRUCTION), after)
