"""Loading models without progress bars and log lines, and without changing the user's settings for good."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_lock = threading.Lock()
_inside = 0
_saved: _Settings | None = None


@dataclass(frozen=True)
class _Settings:
    verbosity: int
    transformers_bars: bool
    hub_bars: bool


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers and huggingface_hub inside the block; the settings found come back at its end.

    The settings are global to the process, so with several threads inside, the first to enter saves
    them and the last to leave restores them.
    """
    global _inside, _saved
    with _lock:
        if _inside == 0:
            _saved = _silence()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _saved is not None:
                _restore(_saved)


def _silence() -> _Settings:
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled
    from transformers.utils import logging

    found = _Settings(logging.get_verbosity(), logging.is_progress_bar_enabled(), not are_progress_bars_disabled())
    logging.set_verbosity(40)  # logging.ERROR
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return found


def _restore(found: _Settings) -> None:
    from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars
    from transformers.utils import logging

    logging.set_verbosity(found.verbosity)
    if found.transformers_bars:
        logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    # transformers' switch also turns the hub's bars, which have a setting of their own.
    (enable_progress_bars if found.hub_bars else disable_progress_bars)()
