"""An application on a real port, for clients that bring their own transport."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from fastapi import FastAPI


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve ``app`` from a thread and give its address, once its models are loaded."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        while httpx.get(f"{url}/health").json()["status"] == "loading":
            time.sleep(0.05)
        yield url
    finally:
        server.should_exit = True
        thread.join()
