"""Let a reader answer from every context that was kept, from all documents and from none, and judge its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rag.assembly import assemble, context_document, is_away, uncompressed
from rag.eval.answers import exact_match, f1, findable
from rag.eval.collections import Question
from rag.eval.context import Kept, shuffled
from rag.eval.progress import progress_bar
from rag.eval.reader import Answer, Reader, prompt_digest, prompt_for
from rag.eval.record_log import record_log
from rag.types import CompressedDocument, Document, ScoredDocument

NO_CONTEXT, FULL_CONTEXT = "no context", "full context"
"""What the reader is compared with: the question alone, and all documents whole. Names of systems."""


def read(
    collections: Mapping[str, Sequence[Question]],
    kept: Sequence[Kept],
    reader: Reader,
    *,
    template: str,
    separator: str,
    ellipsis: str,
    journal: Path | None = None,
    progress: bool = True,
) -> list[Kept]:
    """``kept`` with the reader's measures, and the same for `NO_CONTEXT` (budget 0) and `FULL_CONTEXT` (budget 1).

    The measures: ``exact_match`` and ``f1`` (see `rag.eval.answers`), ``answered`` (1 where an accepted answer stands
    in what the reader said, however wordy it is, else 0; None for yes and no), ``reader_tokens_in`` and
    ``reader_tokens_out`` of the reader's own tokenizer, prompt included, and ``reader_seconds``. Questions without an
    accepted answer get none.

    Args:
        collections: the questions that ``kept`` was made from.
        kept: what `rag.eval.context.evaluate` gave.
        reader: answers.
        template, separator: how a context is assembled (see `rag.assembly.assemble`).
        ellipsis: stands where something was left out.
        journal: a JSONL file of answers, of any readers, to carry on from. Equal prompts are asked once.
        progress: show a progress bar on standard error.

    Raises:
        LimitError: a context longer than the reader reads.
        ReaderError: a service that fails.
        ArtefactError: the journal is another kind of file, or is damaged.
    """
    questions = {(name, item.query.id): item for name, of in collections.items() for item in of if item.answers}
    everything = [*_bounds(kept), *kept]
    prompts: dict[tuple[str, str, str, float], str] = {}
    for item in everything:
        question = questions.get((item.collection, item.question))
        if question is not None:
            context = _context(question, item, template, separator, ellipsis)
            prompts[item.key] = prompt_for(question.query.text, context)
    answers = _ask(list(dict.fromkeys(prompts.values())), reader, journal, progress)
    read_: list[Kept] = []
    for item in everything:
        if item.key in prompts:
            accepted = questions[item.collection, item.question].answers
            item = item.with_values(_judge(answers[prompts[item.key]], accepted))
        read_.append(item)
    return read_


def _judge(answer: Answer, accepted: Sequence[str]) -> dict[str, float | None]:
    return {
        "exact_match": exact_match(answer.text, accepted),
        "f1": f1(answer.text, accepted),
        "answered": float(bool(findable(accepted, [answer.text]))) if findable(accepted, accepted) else None,
        "reader_tokens_in": float(answer.tokens_in),
        "reader_tokens_out": float(answer.tokens_out),
        "reader_seconds": answer.seconds,
    }


def _bounds(kept: Sequence[Kept]) -> list[Kept]:
    """One entry per question for no and for the full context."""
    first = {(item.collection, item.question): item for item in reversed(kept)}
    made = []
    for name, share in ((NO_CONTEXT, 0.0), (FULL_CONTEXT, 1.0)):
        for (collection, question), item in reversed(first.items()):
            tokens = round(share * item.tokens_before)
            values = {"ratio": share, "seconds": 0.0}
            made.append(Kept(collection, question, name, share, {}, item.tokens_before, tokens, False, values))
    return made


def whole_context(documents: Sequence[Document], template: str, separator: str) -> str:
    """A context of whole documents, in their order; those without text are left out."""
    return _assembled([uncompressed(document, 0) for document in documents], template, separator)


def _context(question: Question, kept: Kept, template: str, separator: str, ellipsis: str) -> str:
    if kept.system == FULL_CONTEXT:
        return whole_context(shuffled(question), template, separator)
    if kept.text is not None:
        return kept.text
    documents = {document.id: document for document in question.documents}
    items = [CompressedDocument(documents[name], of, (), 0, 0, ellipsis) for name, of in kept.spans.items()]
    return _assembled(items, template, separator)


def _assembled(items: Sequence[CompressedDocument], template: str, separator: str) -> str:
    shown = [item for item in items if not is_away(item)]
    return assemble(
        [
            context_document(ScoredDocument(item.document, 0.0, rank), item, index=rank - 1, windows=1, scores={})
            for rank, item in enumerate(shown, start=1)
        ],
        template,
        separator,
    )


def _ask(prompts: Sequence[str], reader: Reader, journal: Path | None, progress: bool) -> dict[str, Answer]:
    identity = dict(reader.identity)
    with (
        record_log(journal, {"evaluation": "answers"}) as (records, write),
        progress_bar(progress, len(prompts)) as advance,
    ):
        known = {item["prompt"]: Answer(**item["answer"]) for item in records if item["reader"] == identity}
        unanswered = [prompt for prompt in prompts if prompt_digest(prompt) not in known]
        for _ in range(len(prompts) - len(unanswered)):
            advance("reader")
        for i, answer in reader.answers(unanswered):
            key = prompt_digest(unanswered[i])
            known[key] = answer
            write({"reader": identity, "prompt": key, "answer": asdict(answer)})
            advance("reader")
    return {prompt: known[prompt_digest(prompt)] for prompt in prompts}
