"""What texts go by in caches, which need not hold the texts themselves."""

from __future__ import annotations

from hashlib import blake2b


def text_digest(text: str) -> bytes:
    """128 bits of BLAKE2 that stand for a text; any string has them, one with lone surrogates too."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
