"""API keys: who may do what, how often. Only hashes of keys are ever held."""

from __future__ import annotations

import hmac
import math
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from hashlib import sha256

from starlette.requests import Request

from rag.api.errors import ApiError
from rag.config import KeySettings, Scope, ServerSettings

_PREFIX = "rag_"
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="rag-context"'}
_ANYONE = KeySettings(name="anyone", sha256="0" * 64, scopes=("infer", "corpora:read", "corpora:write", "metrics"))


def new_key() -> tuple[str, str]:
    """A new random key of 256 bits and its SHA-256; the key itself is to be shown once and kept nowhere."""
    key = _PREFIX + secrets.token_urlsafe(32)
    return key, sha256(key.encode()).hexdigest()


class TokenBucket:
    """So many per minute on average, and as many at once after a minute of rest. Safe for many threads."""

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self.capacity = max(1.0, per_minute)
        self._clock = clock
        self._level = self.capacity
        self._at = clock()
        self._lock = threading.Lock()

    def take(self) -> float:
        """0 where one is allowed now, and taken; else the seconds until one is."""
        with self._lock:
            now = self._clock()
            self._level = min(self.capacity, self._level + (now - self._at) * self.per_minute / 60)
            self._at = now
            if self._level >= 1:
                self._level -= 1
                return 0.0
            return (1 - self._level) * 60 / self.per_minute


class Keys:
    """The keys of one service.

    With none configured everyone may do everything, as often as the service as a whole allows.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._keys: Sequence[KeySettings] = settings.keys
        every = [_ANYONE.model_copy(update={"requests_per_minute": settings.requests_per_minute}), *settings.keys]
        self._anyone = every[0]
        self._buckets = {
            key.name: TokenBucket(key.requests_per_minute or settings.requests_per_minute or math.inf)
            for key in every
            if key.requests_per_minute or settings.requests_per_minute
        }

    def admit(self, request: Request, scope: Scope) -> KeySettings:
        """The key of a request, which may do what ``scope`` names and has not done so too often.

        Raises:
            ApiError: no key or an unknown one (401), one without the scope (403), too many requests (429).
        """
        key = self._identify(request.headers.get("authorization")) if self._keys else self._anyone
        if scope not in key.scopes:
            raise ApiError(
                403, f"key {key.name!r} has the scopes {', '.join(key.scopes)}; this needs {scope}", code="forbidden"
            )
        bucket = self._buckets.get(key.name)
        seconds = bucket.take() if bucket else 0.0
        if bucket and seconds:
            raise ApiError(
                429,
                f"key {key.name!r} made more than {bucket.per_minute:g} requests in a minute; accepted: up to "
                f"{bucket.per_minute:g} per minute, the next in {math.ceil(seconds)} s",
                code="rate_limited",
                headers={"Retry-After": str(math.ceil(seconds))},
            )
        return key

    def _identify(self, header: str | None) -> KeySettings:
        kind, _, given = (header or "").partition(" ")
        if kind.lower() != "bearer" or not given.strip():
            raise ApiError(
                401, "no API key given; accepted: Authorization: Bearer KEY", code="unauthorized", headers=_CHALLENGE
            )
        digest = sha256(given.strip().encode("utf-8", "surrogateescape")).hexdigest()
        # Every key is compared, so that the time taken tells nothing about which of them was near.
        found = [key for key in self._keys if hmac.compare_digest(key.sha256, digest)]
        if not found:
            raise ApiError(401, "the API key is not known", code="unauthorized", headers=_CHALLENGE)
        return found[0]


def check_corpus(request: Request, name: str) -> None:
    """Raise `ApiError` (403) where the key of an admitted request may not use the stored corpus ``name``."""
    key: KeySettings = request.scope["state"]["key"]
    if key.corpora is not None and name not in key.corpora:
        raise ApiError(403, f"key {key.name!r} may not use corpus {name!r}", code="forbidden")
