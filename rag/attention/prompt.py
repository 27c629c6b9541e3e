"""Assembles prompts as token ids, with every span known because we put it there.

No span is ever found by searching text: a document may contain "Query:", "[3]" or the model's own
control tokens. Document and query text is tokenised with special tokens switched off, so that
``<|im_end|>`` in a passage is six harmless pieces and not the end of a turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cachetools import LRUCache
from tokenizers import Tokenizer

from rag.attention.template import Template
from rag.attention.windows import token_windows
from rag.errors import ConfigError, UnsupportedModelError
from rag.types import Document, Query, Span

_MARK = "\ue000"  # a private-use character: stands for the user's turn when the chat frame is read off
_DATE = "01 Jan 2025"
NO_OFFSET = Span(-1, -1)

# About 200 bytes each: the ids and offsets of a document are small beside its keys and values.
_KEPT_TOKENS = 200_000


@dataclass(frozen=True, slots=True)
class BlockTokens:
    """One window of a document: its token ids, and per token the character range in the document's text."""

    ids: tuple[int, ...]
    offsets: tuple[Span, ...]
    window: Span


class Prompter:
    """Turns documents and queries into token ids. Holds its own copy of the tokenizer, never changed after
    construction, so any number of threads may use it (a shared fast tokenizer whose truncation is
    switched per call fails with "Already borrowed").
    """

    def __init__(
        self,
        tokenizer: Any,
        template: Template,
        split: Callable[[str], Sequence[Span]],
        window_tokens: int,
        overlap_tokens: int,
    ) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._template = template
        self._split = split
        self._window_tokens = window_tokens
        self._overlap_tokens = overlap_tokens
        self._known: LRUCache[tuple[str, str], tuple[BlockTokens, ...]] = LRUCache(_KEPT_TOKENS, getsizeof=_tokens)
        self._lock = threading.Lock()
        header, footer = chat_frame(tokenizer)
        self.prefix = self._text(header + template.introduction)
        self._title_end = self._text(template.title_end)
        self._document_end = self._text(template.document_end)
        self._stem = self._text(template.stem)
        self._footer = self._text(footer) if template.close_turn else ()
        self._tokenizer.encode_special_tokens = True  # from here on: what follows is not our own text
        room = window_tokens // 2 - len(self._title_end) - len(self._document_end)
        if room < 1:
            raise ConfigError(
                f"window_tokens {window_tokens} leaves no room for text beside the template's own; "
                f"accepted: {window_tokens + 2 * (1 - room)} or more"
            )
        self._content_free = (*self._text(template.query_start + template.content_free), *self._footer)

    def _text(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Content tokens of each text."""
        return [len(item.ids) for item in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def query(self, query: Query) -> tuple[int, ...]:
        """A query's branch of the suffix: its tokens, and the chat footer where the template closes the turn."""
        return (*self._text(self._template.query_start + query.full_text), *self._footer)

    @property
    def stem(self) -> tuple[int, ...]:
        """The suffix's tokens before the query."""
        return self._stem

    @property
    def content_free(self) -> tuple[int, ...]:
        """The branch whose query says nothing."""
        return self._content_free

    def strings(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Each token as text, for explanations."""
        return tuple(self._tokenizer.decode([token], skip_special_tokens=False) for token in ids)

    def blocks(self, documents: Sequence[Document]) -> list[list[BlockTokens]]:
        """The windows of each document; none for a document without any text.

        Those of documents seen lately are kept, up to `_KEPT_TOKENS` tokens in all.
        """
        named = [(document.title, document.text) for document in documents]
        with self._lock:
            known = {name: found for name in named if (found := self._known.get(name)) is not None}
        missing = list(
            {name: document for name, document in zip(named, documents, strict=True) if name not in known}.values()
        )
        if missing:
            made = self._cut(missing)
            known |= {(document.title, document.text): windows for document, windows in zip(missing, made, strict=True)}
            with self._lock:
                for document, windows in zip(missing, made, strict=True):
                    if _tokens(windows) <= self._known.maxsize:
                        self._known[document.title, document.text] = windows
        return [list(known[name]) for name in named]

    def _cut(self, documents: Sequence[Document]) -> list[tuple[BlockTokens, ...]]:
        titles = self._tokenizer.encode_batch([d.title.strip() for d in documents], add_special_tokens=False)
        texts = self._tokenizer.encode_batch([d.text for d in documents], add_special_tokens=False)
        return [
            () if document.is_empty else tuple(self._windows(document, tuple(title.ids), text))
            for document, title, text in zip(documents, titles, texts, strict=True)
        ]

    def _windows(self, document: Document, title: tuple[int, ...], text: Any) -> list[BlockTokens]:
        """Windows of one document; every window repeats the title, unless the title would fill half of it:
        then the title is read like the text, once and whole.
        """
        head = (*title, *self._title_end) if title else ()
        ids, offsets = tuple(text.ids), tuple(Span(start, end) for start, end in text.offsets)
        if len(head) > self._window_tokens // 2:
            ids, offsets, head = (*head, *ids), (*len(head) * (NO_OFFSET,), *offsets), ()
        limit = self._window_tokens - len(head) - len(self._document_end)
        ranges = [Span(0, len(ids))]
        if len(ids) > limit:
            ranges = token_windows(offsets, self._split(document.text), limit, self._overlap_tokens)
        before, after = len(head) * (NO_OFFSET,), len(self._document_end) * (NO_OFFSET,)
        return [
            BlockTokens(
                (*head, *ids[start:end], *self._document_end),
                (*before, *offsets[start:end], *after),
                _covered(offsets[start:end]),
            )
            for start, end in ranges
        ]


def _tokens(windows: Sequence[BlockTokens]) -> int:
    return 1 + sum(len(window.ids) for window in windows)


def _covered(offsets: Sequence[Span]) -> Span:
    """The character range of the text that some tokens come from; empty where they are all from the title."""
    inside = [offset for offset in offsets if offset != NO_OFFSET]
    return Span(inside[0].start, inside[-1].end) if inside else Span(0, 0)


def chat_frame(tokenizer: Any) -> tuple[str, str]:
    """What the model's chat template puts before and after a user's turn, up to the assistant's first token."""
    if not getattr(tokenizer, "chat_template", None):
        return (tokenizer.bos_token or ""), "\n"
    # Some templates print today's date: with it a prompt, and all that is cached for it, would last a day.
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": _MARK}],
        tokenize=False,
        add_generation_prompt=True,
        chat_template="{% macro strftime_now(_) %}" + _DATE + "{% endmacro %}" + tokenizer.get_chat_template(),
        date_string=_DATE,
    )
    header, mark, footer = text.partition(_MARK)
    if not mark:
        raise UnsupportedModelError("the model's chat template does not repeat the user's message")
    return header, footer
