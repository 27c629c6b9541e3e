"""A reader behind any HTTP service that speaks OpenAI's chat completions."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any, ClassVar

import httpx
import tenacity

from rag.errors import ConfigError, RagError, shown
from rag.eval.reader import Answer, first_line

MODEL_VARIABLE, KEY_VARIABLE = "RAG_READER_MODEL", "RAG_READER_KEY"
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class ReaderError(RagError):
    """The reader's service cannot be reached, refuses the request, or answers in another form."""

    code: ClassVar[str] = "reader_failed"


class _BusyError(Exception):
    """A failure that may pass: worth another try."""


class EndpointReader:
    """A model behind ``{base_url}/chat/completions``, at temperature 0, several requests at a time.

    Args:
        base_url: such as ``http://localhost:8000/v1``.
        model: its name at the service; None for the environment's ``RAG_READER_MODEL``.
        key: sent as a bearer token; None for ``RAG_READER_KEY``, and none is sent where that is not set.
        max_tokens: longest answer.
        timeout: seconds of one try.
        tries: how often a request is sent while the service is busy or cannot be reached, with growing pauses.
        pause: seconds before the second try, doubled for each further one (60 at most).
        concurrency: requests under way at once.

    Raises:
        ConfigError: no model name, a base URL that is none, or a setting below 1.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        key: str | None = None,
        *,
        max_tokens: int = 32,
        timeout: float = 60.0,
        tries: int = 5,
        pause: float = 1.0,
        concurrency: int = 4,
    ) -> None:
        named = model or os.environ.get(MODEL_VARIABLE)
        if not named:
            raise ConfigError(f"a reader at a URL needs a model name: the environment variable {MODEL_VARIABLE}")
        if not base_url.startswith(("http://", "https://")):
            raise ConfigError(f"reader {shown(base_url)}; accepted: a URL that starts with http:// or https://")
        for name, value in (("max_tokens", max_tokens), ("tries", tries), ("concurrency", concurrency)):
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, given {value}")
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._model = named
        self._max_tokens = max_tokens
        self._concurrency = concurrency
        secret = key or os.environ.get(KEY_VARIABLE)
        self._client = httpx.Client(timeout=timeout, headers={"authorization": f"Bearer {secret}"} if secret else {})
        self._retrying = partial(
            tenacity.Retrying,
            retry=tenacity.retry_if_exception_type(_BusyError),
            stop=tenacity.stop_after_attempt(tries),
            wait=tenacity.wait_exponential(multiplier=pause, max=60),
            reraise=True,
        )

    @property
    def identity(self) -> Mapping[str, Any]:
        """Service, model and the longest answer; never the key."""
        return {"reader": self._url, "model": self._model, "max_tokens": self._max_tokens}

    def answers(self, prompts: Sequence[str]) -> Iterator[tuple[int, Answer]]:
        """See `rag.eval.reader.Reader.answers`. The first failure ends it; answers that came before have been given.

        Raises:
            ReaderError: see there.
        """
        with ThreadPoolExecutor(self._concurrency) as pool:
            waiting = {pool.submit(self._answer, prompt): i for i, prompt in enumerate(prompts)}
            try:
                for future in as_completed(waiting):
                    yield waiting[future], future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, prompt: str) -> Answer:
        try:
            return self._retrying()(self._ask, prompt)
        except _BusyError as error:
            raise ReaderError(f"reader {self._url}: {error}") from None

    def _ask(self, prompt: str) -> Answer:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": self._max_tokens,
        }
        start = time.perf_counter()
        try:
            response = self._client.post(self._url, json=body)
        except httpx.TransportError as error:
            raise _BusyError(f"cannot be reached ({type(error).__name__}: {error})") from None
        if response.status_code in _AGAIN:
            raise _BusyError(f"answered {response.status_code}: {shown(response.text, 200)}")
        seconds = time.perf_counter() - start
        if response.status_code != 200:
            raise ReaderError(f"reader {self._url} answered {response.status_code}: {shown(response.text, 200)}")
        try:
            data = response.json()
            text = data["choices"][0]["message"]["content"] or ""
            usage = data.get("usage") or {}
            return Answer(
                first_line(text), int(usage.get("prompt_tokens", 0)), int(usage.get("completion_tokens", 0)), seconds
            )
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ReaderError(f"reader {self._url} answered in another form: {shown(response.text, 200)}") from None
