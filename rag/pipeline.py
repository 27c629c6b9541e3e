"""One query over one corpus: retrieve, rerank, compress, order, assemble."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag.assembly import Fate, assemble_cited, dropped, is_away
from rag.budget import Budget
from rag.checks import as_query, check_limits, check_query_tokens, full_text, whole_count
from rag.config import BudgetSettings, LimitSettings, Settings, StageSettings
from rag.corpus import as_documents
from rag.errors import BudgetError, shown
from rag.registry import Kind, build, check
from rag.resources import Resources
from rag.results import ContextDocument, ContextResult, Usage
from rag.types import Document, Query

if TYPE_CHECKING:
    from rag.attention.types import Attender, AttentionSpec
    from rag.request import OnStage, Stages

_KINDS: tuple[Kind, ...] = ("retriever", "reranker", "compressor", "ordering")
_SHARED_PARTS = ("engine", "embedder")
_EVERYTHING = Budget(1.0, "ratio")


class Pipeline:
    """Decides which documents a reader model sees, which sentences of them, and in which order.

    Built from `Settings` alone (``engine`` and ``embedder`` may be handed in, for sharing). Models are
    loaded on the first `run`, or by `warm`. Safe for use by several threads.

    Raises:
        ConfigError: a stage name or option that is not known, naming those that are, or a value that a stage
            refuses (as far as that can be known without a model; else when the models are loaded).
    """

    def __init__(
        self, settings: Settings | None = None, *, engine: Attender | None = None, embedder: Any = None
    ) -> None:
        self.settings = settings if settings is not None else Settings()
        self._resources = Resources(self.settings, engine, embedder)
        self._chosen: dict[Kind, StageSettings | None] = {kind: self._checked(kind) for kind in _KINDS}
        self._built: Stages | None = None
        self._lock = threading.Lock()

    @classmethod
    def from_yaml(cls, path: str | Path) -> Pipeline:
        """A pipeline from a YAML file (the environment is stronger, see `rag.config`)."""
        return cls(Settings.load(path))

    @classmethod
    def from_config(cls, **settings: Any) -> Pipeline:
        """A pipeline from settings given as keywords: ``Pipeline.from_config(reranker="icr", top_n=3)``."""
        return cls(Settings(**settings))

    def warm(self) -> Pipeline:
        """Load all that a run needs, by running once on a small corpus; returns the pipeline."""
        # The settings bound requests, and this is none: its size is ours.
        self._run("Is everything loaded?", ["Yes, everything is loaded."], LimitSettings(), budget=_EVERYTHING)
        return self

    @property
    def resources(self) -> Resources:
        """The models that the stages share, loaded on first use."""
        return self._resources

    @property
    def engine(self) -> Attender:
        """The attention engine, loaded if it is not yet."""
        return self._resources.engine()

    def specs(self) -> list[AttentionSpec]:
        """What the attention stages read: heads, rows, calibration. Loads the models if they are not yet."""
        return self._stages().specs()

    def describe(self) -> dict[str, Any]:
        """What decides the answer, as plain values: stages with their options, models, and bounds."""
        settings = self.settings.to_dict()
        stages = {kind: stage and stage.model_dump(mode="json") for kind, stage in self._chosen.items()}
        return stages | {
            name: settings[name] for name in ("retrieve_k", "top_n", "budget", "model", "embedder", "engine")
        }

    def __repr__(self) -> str:
        settings = self.settings
        parts: dict[str, Any] = {kind: str(stage) if stage else None for kind, stage in self._chosen.items()}
        parts |= {"retrieve_k": settings.retrieve_k, "top_n": settings.top_n}
        parts |= {"budget": str(settings.budget) if settings.budget else None, "model": settings.model}
        return f"Pipeline({', '.join(f'{name}={value!r}' for name, value in parts.items())})"

    def run(
        self,
        query: str | Query,
        corpus: Iterable[str | Document | Mapping[str, Any]],
        *,
        top_n: int | None = None,
        budget: Budget | None = None,
        retrieve_k: int | None = None,
        on_stage: OnStage | None = None,
    ) -> ContextResult:
        """Answer ``query`` with the part of ``corpus`` that a reader model should see.

        ``top_n``, ``budget`` and ``retrieve_k`` stand in for the settings of the same name; ``budget`` bounds
        the kept document text, not the titles and numbers of the assembled context. ``on_stage`` is called
        with the `StageTrace` of each stage and what it gave (`ScoredDocument` or `CompressedDocument` values), as soon
        as it has ended; what it raises ends the run.

        ==============================================  ====================================================
        given                                           outcome
        ==============================================  ====================================================
        query empty or white space                      `EmptyQueryError`
        query (with history) above the cap              `QueryTooLongError` with both numbers
        corpus empty                                    empty result and a warning
        document empty                                  ranked last, ``empty=True``, not in ``context``
        document longer than the model's window         read in windows, ``windowed=True``, never cut
        two documents with one id                       `DuplicateIdsError` naming it
        string documents                                ids "0", "1", ...: the position in the corpus
        text that is not a string                       `NotTextError` naming the index
        ``top_n`` or ``retrieve_k`` above the corpus    all documents
        ``top_n`` above ``retrieve_k``                  as many candidates as ``top_n``
        ``top_n`` or ``retrieve_k`` below 1             `InputError`
        more documents or characters than ``limits``    `LimitError` with both numbers
        more candidates' tokens than can be read        `LimitError` with both numbers
        a budget, and no compressor                     a warning: the budget is not applied
        NaN or infinity from a model                    `ModelOutputError`
        ==============================================  ====================================================
        """
        return self._run(
            query,
            corpus,
            self.settings.limits,
            top_n=top_n,
            budget=budget,
            retrieve_k=retrieve_k,
            on_stage=on_stage,
        )

    def _run(
        self,
        query: str | Query,
        corpus: Iterable[str | Document | Mapping[str, Any]],
        limits: LimitSettings,
        *,
        top_n: int | None = None,
        budget: Budget | None = None,
        retrieve_k: int | None = None,
        on_stage: OnStage | None = None,
    ) -> ContextResult:
        started = time.perf_counter()
        question = as_query(query)
        documents = as_documents(corpus)
        check_limits(documents, limits)
        wanted = whole_count("top_n", top_n, self.settings.top_n)
        candidates = max(wanted, whole_count("retrieve_k", retrieve_k, self.settings.retrieve_k))
        asked = budget is not None or "budget" in self.settings.model_fields_set
        if budget is None:
            budget = self.settings.budget.budget() if self.settings.budget else _EVERYTHING
        if not isinstance(budget, Budget):
            raise BudgetError(f"budget must be a rag.budget.Budget, given {shown(budget)}")
        from rag.request import Request  # loads torch

        engine = self._resources.engine()
        query_tokens, *tokens = engine.count_tokens([question.full_text, *map(full_text, documents)])
        check_query_tokens(query_tokens, limits)
        request = Request(self._stages(), self._chosen, engine, question, documents, tokens, limits, on_stage)
        ranked = request.rank(candidates)
        taken = ranked[:wanted]
        kept = request.compress(taken, budget)
        results = request.results(taken, kept)
        context, citations = assemble_cited(
            results, kept, self.settings.context_template, self.settings.context_separator
        )
        (context_tokens,) = engine.count_tokens([context])
        away = frozenset(item.document.id for item in taken if is_away(kept[item.document.id]))
        bound = str(BudgetSettings(amount=budget.amount, unit=budget.unit))
        unused = bound if asked and self._chosen["compressor"] is None and budget != _EVERYTHING else ""
        count = request.shared.count
        return ContextResult(
            query=question.text,
            results=results,
            context=context,
            dropped=dropped(documents, Fate(tuple(ranked), wanted, away, bound)),
            usage=Usage(
                query_tokens=query_tokens,
                corpus_tokens=sum(tokens),
                context_tokens=context_tokens,
                saved_tokens=sum(tokens) - context_tokens,
                encoded_tokens=count.encoded_tokens,
                cached_blocks=count.cached_blocks,
            ),
            trace=tuple(request.trace),
            seconds=time.perf_counter() - started,
            warnings=_warnings(documents, results, unused),
            pipeline=self.describe(),
            citations=citations,
        )

    def _checked(self, kind: Kind) -> StageSettings | None:
        stage: StageSettings | None = getattr(self.settings, kind)
        if stage is None:
            return None
        return StageSettings(name=stage.name, options=check(kind, stage.name, stage.options, _SHARED_PARTS))

    def _stages(self) -> Stages:
        from rag.request import Stages  # loads torch

        with self._lock:
            if self._built is None:
                parts = {"engine": self._resources.engine, "embedder": self._resources.embedder}
                made: dict[str, Any] = {
                    kind: stage and build(kind, stage.name, stage.options, parts)
                    for kind, stage in self._chosen.items()
                }
                self._built = Stages(**made)
            return self._built


def _warnings(documents: Sequence[Document], results: Sequence[ContextDocument], unused: str) -> tuple[str, ...]:
    """What a caller should know about an answer that is not an error; ``unused``: a budget that nothing applied."""
    if not documents:
        return ("the corpus is empty",)
    unapplied = (f"no compressor: the budget of {unused} is not applied",) if unused else ()
    notes = {
        "without any text, ranked last": [document.id for document in documents if document.is_empty],
        "longer than the model's window, read in overlapping parts": [item.id for item in results if item.windowed],
    }
    return (*unapplied, *(f"{what}: {_listed(ids)}" for what, ids in notes.items() if ids))


def _listed(ids: Sequence[str], most: int = 10) -> str:
    names = ", ".join(shown(name) for name in ids[:most])
    return f"{names} and {len(ids) - most} more" if len(ids) > most else names
