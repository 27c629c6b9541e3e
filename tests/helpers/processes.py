"""Starting the product in a process of its own."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """As ``preexec_fn``: a child of a shell's background job would ignore SIGINT, and Python with it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
