"""One team of threads for the models, none beside it."""

from __future__ import annotations

import asyncio
import threading

import torch

from rag.api.threads import apart, use_all
from rag.api.worker import RequestPool


def test_requests_compute_alone_and_the_model_thread_with_all_there_are():
    before = torch.get_num_threads()
    pool = RequestPool(limit=2, threads=1)
    seen = {"request": asyncio.run(pool.run(torch.get_num_threads)).value}

    def model() -> None:
        use_all()
        seen["default"] = torch.get_num_threads()
        use_all(before + 1)
        seen["asked"] = torch.get_num_threads()

    thread = threading.Thread(target=model)
    thread.start()
    thread.join()
    pool.close()
    assert seen == {"request": 1, "default": before, "asked": before + 1}
    assert torch.get_num_threads() == before


def test_what_is_loaded_apart_leaves_no_thread_behind():
    threads = threading.active_count()
    name = apart(lambda: threading.current_thread().name)
    assert name.startswith("rag-load")
    assert threading.active_count() == threads
