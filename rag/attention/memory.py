"""Memory of the machine: out of memory, halve the batch and go on; what was freed goes back to the system."""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")

_log = logging.getLogger(__name__)


def is_out_of_memory(error: BaseException) -> bool:
    """True for what torch raises where an accelerator or the CPU cannot give it memory."""
    # The CPU's allocator and that of Apple's GPUs raise a bare RuntimeError.
    known = ("can't allocate memory", "MPS backend out of memory")
    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in known)


def give_back_freed() -> None:
    """Return to the system the pages that the C library keeps of freed tensors.

    glibc keeps what lies between blocks that live long: after a list that was larger than the cache, several
    hundred MiB. Costs milliseconds, so it is called after documents were read, which takes seconds. Does nothing
    with another C library.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def in_halves(run: Callable[[Sequence[T]], list[R]], items: Sequence[T]) -> list[R]:
    """``run(items)``; where memory does not suffice, the results of the two halves, halved again as needed.

    Raises:
        RuntimeError: a single item does not fit; anything else that ``run`` raises.
    """
    try:
        return run(items)
    except RuntimeError as error:
        if len(items) < 2 or not is_out_of_memory(error):
            raise
    # Here, and not in the handler: the traceback of the failed run keeps its tensors alive.
    _log.warning("out of memory with a batch of %d; going on with halves", len(items))
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    middle = len(items) // 2
    return in_halves(run, items[:middle]) + in_halves(run, items[middle:])
