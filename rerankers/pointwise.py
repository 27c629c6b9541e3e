"""Query likelihood: how probable a language model finds the query after each document alone."""

from __future__ import annotations

from collections.abc import Sequence

from rag.attention.types import Attender
from rag.config import Device
from rag.models.catalog import DEFAULT_LLM
from rag.models.causal import CausalLM
from rag.registry import register
from rag.rerankers.listwise import Scores, rerank_readable
from rag.rerankers.pointwise_windows import WINDOW_TOKENS, Frame, log_probabilities, require_window
from rag.rerankers.windows import OverWindows, over_windows
from rag.types import Query, ScoredDocument


@register("reranker", "pointwise")
class PointwiseReranker:
    """Ranks by the mean log-likelihood of the query's tokens after the document (Ponte and Croft 1998; with a neural
    language model Sachan et al., EMNLP 2022). Document, blank line, query: no instruction. The incoming score plays
    no part.

    Each document is read anew for every query and by all layers, so this is much slower than the attention methods
    over blocks: a baseline, and a way out for models whose attention cannot be read. ``trace`` holds the score under
    ``"pointwise"`` and the number of windows a long document was read in under ``"pointwise_windows"``.

    Args:
        model: a decoder, by any name that `rag.models.resolve` takes. Loaded at the first use, with its
            language-model head and apart from the attention engine's.
        device: where it runs; "auto" takes the best there is.
        batch_tokens: most tokens of one forward pass, padding counted.
        window_tokens: longer documents are read in overlapping windows.
        over_windows: what counts of a document's windows, "max" or "mean".

    Raises:
        ConfigError: ``batch_tokens`` below 1 or ``window_tokens`` below 8.
        ModelNotFoundError (from `rerank`): the model cannot be had, or cannot be loaded.
        QueryTooLongError (from `rerank`): query and window are longer than the model reads.
    """

    def __init__(
        self,
        model: str = DEFAULT_LLM,
        *,
        device: Device = "auto",
        batch_tokens: int = 4096,
        window_tokens: int = WINDOW_TOKENS,
        over_windows: OverWindows = "max",
    ) -> None:
        self._window_tokens = require_window(window_tokens)
        self._over_windows: OverWindows = over_windows
        self._model = CausalLM(model, device, batch_tokens=batch_tokens)

    def rerank(
        self,
        query: Query,
        documents: Sequence[ScoredDocument],
        *,
        attender: Attender | None = None,  # noqa: ARG002 - a method without attention
    ) -> list[ScoredDocument]:
        """See `rag.stages.Reranker`."""
        return rerank_readable(documents, lambda given: self._scores(query, given))

    def _scores(self, query: Query, given: Sequence[ScoredDocument]) -> Scores:
        frame = Frame(self._model.frame("", start=True), self._model.frame("\n\n"))
        continuation, _ = self._model.content(query.full_text)
        logs, owners = log_probabilities(
            self._model, [item.document for item in given], frame, continuation, self._window_tokens
        )
        likelihoods = logs.double().mean(1).tolist()
        scores, windows = over_windows(likelihoods, owners, len(given), self._over_windows)
        return scores, {"pointwise": scores, "pointwise_windows": windows}
