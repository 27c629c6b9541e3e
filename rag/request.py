"""What happens to one request on its way through the stages of a pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from rag.assembly import context_document, is_away, require_finite, scores_of, uncompressed, with_empty_last
from rag.attention.shared import SharedPass
from rag.budget import Budget
from rag.checks import check_read_tokens
from rag.config import LimitSettings, StageSettings
from rag.indexed import IndexedCorpora
from rag.registry import Kind
from rag.results import ContextDocument, StageTrace
from rag.stages import Compressor, Ordering, Reranker, Retriever
from rag.types import CORPUS_INDEX, ORDERING_NOTES, CompressedDocument, Document, Query, ScoredDocument

if TYPE_CHECKING:
    from rag.attention.types import Attender, AttentionSpec

T = TypeVar("T")
OnStage = Callable[[StageTrace, Sequence[ScoredDocument] | Sequence[CompressedDocument]], None]
"""Told what a stage did and what it gave, as soon as it has ended."""


@dataclass(frozen=True)
class Stages:
    """The stages of a pipeline, ready to run; None is off."""

    retriever: Retriever
    reranker: Reranker | None
    compressor: Compressor | None
    ordering: Ordering | None

    @cached_property
    def corpora(self) -> IndexedCorpora:
        """The retriever, over any corpus."""
        return IndexedCorpora(self.retriever)

    def specs(self) -> list[AttentionSpec]:
        """What the attention stages say in advance that they will read."""
        stages = (self.retriever, self.reranker, self.compressor, self.ordering)
        return [spec for stage in stages if (spec := getattr(stage, "spec", None)) is not None]


class Request:
    """The state of one `Pipeline.run`: its shared attention pass, what the stages gave, and their trace."""

    def __init__(
        self,
        stages: Stages,
        chosen: Mapping[Kind, StageSettings | None],
        engine: Attender,
        query: Query,
        documents: Sequence[Document],
        tokens: Sequence[int],
        limits: LimitSettings,
        on_stage: OnStage | None,
    ) -> None:
        self._stages = stages
        self._chosen = chosen
        self._query = query
        self._full = [document for document in documents if not document.is_empty]
        self._empty = [document for document in documents if document.is_empty]
        self._index = {document.id: index for index, document in enumerate(documents)}
        self._tokens = {document.id: count for document, count in zip(documents, tokens, strict=True)}
        self._scored: dict[str, dict[str, ScoredDocument]] = {document.id: {} for document in documents}
        self._limits = limits
        self._on_stage = on_stage
        self.shared: SharedPass = SharedPass(engine, query, stages.specs())
        self.trace: list[StageTrace] = []

    def rank(self, k: int) -> list[ScoredDocument]:
        """Up to ``k`` candidates, best first, documents without text last."""
        ranked: list[ScoredDocument] = []
        if self._full:
            ranked = self._ranking("retriever", self._full, self._retrieve(min(k, len(self._full))))
        reranker = self._stages.reranker
        if ranked and reranker is not None:
            given = ranked
            ranked = self._ranking(
                "reranker",
                [item.document for item in given],
                lambda: reranker.rerank(self._query, given, attender=self.shared),
            )
        return with_empty_last(ranked, self._empty[: k - len(ranked)])

    def _retrieve(self, k: int) -> Callable[[], list[ScoredDocument]]:
        return lambda: self._stages.corpora.retrieve(self._query, self._full, k)

    def _ranking(
        self, kind: Kind, documents: Sequence[Document], call: Callable[[], list[ScoredDocument]]
    ) -> list[ScoredDocument]:
        found = self._timed(kind, documents, call, lambda given: [item.document for item in given])
        ranked = [replace(item, trace={**item.trace, CORPUS_INDEX: self._index[item.document.id]}) for item in found]
        require_finite(ranked, f"{kind} {self._chosen[kind]}")
        for item in ranked:
            self._scored[item.document.id][kind] = item
        return ranked

    def compress(self, taken: Sequence[ScoredDocument], budget: Budget) -> dict[str, CompressedDocument]:
        """What is kept of each taken document, by id."""
        sizes = self.shared.count_tokens([item.document.text for item in taken]) if taken else []
        kept = {item.document.id: uncompressed(item.document, size) for item, size in zip(taken, sizes, strict=True)}
        compressor = self._stages.compressor
        given = [item for item in taken if item.document.text.strip()]
        if not given or compressor is None:
            return kept
        compressed = self._timed(
            "compressor",
            [item.document for item in given],
            lambda: compressor.compress(self._query, given, budget, attender=self.shared),
            lambda items: [item.document for item in items if item.spans],
            tokens_in=lambda items: sum(item.tokens_before for item in items),
            tokens_out=lambda items: sum(item.tokens_after for item in items),
        )
        return kept | {item.document.id: item for item in compressed}

    def results(
        self, taken: Sequence[ScoredDocument], kept: Mapping[str, CompressedDocument]
    ) -> tuple[ContextDocument, ...]:
        """The documents that are left, in reading order, those without text last."""
        reading = [item for item in taken if not item.document.is_empty and not is_away(kept[item.document.id])]
        empty = [item for item in taken if item.document.is_empty]
        ordering = self._stages.ordering
        if reading and ordering is not None:
            given = reading
            reading = self._timed(
                "ordering",
                [item.document for item in given],
                lambda: ordering.order(self._query, given, attender=self.shared),
                lambda items: [item.document for item in items],
                notes=lambda items: items[0].trace.get(ORDERING_NOTES, {}),
            )
        return tuple(
            context_document(
                item,
                kept[item.document.id],
                index=self._index[item.document.id],
                windows=self._windows(item.document),
                scores=scores_of(self._scored[item.document.id]),
            )
            for item in [*reading, *empty]
        )

    def _windows(self, document: Document) -> int:
        read = self.shared.windows(document)
        return int(not document.is_empty) if read is None else read

    def _timed(
        self,
        kind: Kind,
        documents: Sequence[Document],
        call: Callable[[], T],
        left: Callable[[T], Sequence[Document]],
        tokens_in: Callable[[T], int] | None = None,
        tokens_out: Callable[[T], int] | None = None,
        notes: Callable[[T], Mapping[str, Any]] = lambda _: {},
    ) -> T:
        """Run one stage and note what it did; ``left`` gives the documents that came out."""
        if getattr(getattr(self._stages, kind), "spec", None) is not None:
            check_read_tokens(sum(self._tokens[item.id] for item in documents), kind, self._limits)
        before = self.shared.count
        started = time.perf_counter()
        answer = call()
        seconds = time.perf_counter() - started
        out = left(answer)
        trace = StageTrace(
            stage=kind,
            name=str(self._chosen[kind]),
            seconds=seconds,
            documents_in=len(documents),
            documents_out=len(out),
            tokens_in=tokens_in(answer) if tokens_in else sum(self._tokens[item.id] for item in documents),
            tokens_out=tokens_out(answer) if tokens_out else sum(self._tokens[item.id] for item in out),
            details={**self.shared.count.since(before), **notes(answer)},
        )
        self.trace.append(trace)
        if self._on_stage is not None:
            self._on_stage(trace, answer)  # type: ignore[arg-type]
        return answer
