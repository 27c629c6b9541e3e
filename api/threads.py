"""CPU threads of torch in the service: all of them for the model thread, one for each request's small operations.

OpenMP keeps a team of threads for every thread that runs something in parallel. The teams of a dozen request threads
together outnumber the cores, and then OpenMP lets idle threads sleep instead of wait: each of the thousand short
operations of a pass has to wake them again, which cost a third of the time of a request (docs/results.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

T = TypeVar("T")

_LOCK = threading.Lock()


def use_all(threads: int | None = None) -> None:
    """Give this thread ``threads``, or as many as torch had before anything was set here."""
    import torch

    torch.set_num_threads(threads or _own())


def use_one() -> None:
    """Let this thread compute alone."""
    import torch

    _own()
    torch.set_num_threads(1)


def apart(call: Callable[[], T]) -> T:
    """What ``call`` returns, run in a thread that ends with it, as does its team."""
    with ThreadPoolExecutor(1, thread_name_prefix="rag-load") as once:
        return once.submit(call).result()


def _own() -> int:
    with _LOCK:  # none may set its number while another reads what it was
        return _default()


@cache
def _default() -> int:
    import torch

    return torch.get_num_threads()
