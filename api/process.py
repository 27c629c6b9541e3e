"""The service in a process of its own, for the demo and for tests: started, waited for, stopped cleanly."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from rag.api.server import environment
from rag.config import Settings
from rag.errors import RagError

_POLL_SECONDS = 0.1
_STOP_SECONDS = 600.0
_LOG_LINES = 30


class ServerStartError(RagError):
    """The service ended, or could not load its models, before it was ready."""


class ServerProcess:
    """A running service; ``url`` is where it listens, ``log`` its last lines."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def wait_ready(self, timeout: float = 600.0, on_wait: Callable[[float], None] | None = None) -> dict[str, Any]:
        """Wait until ``/health`` says ready and return what ``/info`` says; ``on_wait`` is told the seconds passed.

        A service that cannot load its models is stopped: its log then says all that it will say.

        Raises:
            ServerStartError: the process ended, its models cannot be loaded, or the time is over.
        """
        started = time.monotonic()
        with httpx.Client(base_url=self.url) as client:
            while (passed := time.monotonic() - started) < timeout:
                if self.process.poll() is not None:
                    raise ServerStartError(self._failure(f"ended with exit code {self.process.returncode}"))
                health = _health(client)
                if health["status"] == "ready":
                    info: dict[str, Any] = client.get("/info").json()
                    return info
                if health["status"] == "failed":
                    self.stop()
                    self._reader.join()
                    raise ServerStartError(self._failure(health["detail"]))
                if on_wait is not None:
                    on_wait(passed)
                time.sleep(_POLL_SECONDS)
        raise ServerStartError(self._failure(f"was not ready after {timeout:.0f} seconds"))

    def stop(self) -> int:
        """Ask the service to finish what it accepted and end; its exit code. Killed only when it hangs for minutes."""
        self.process.terminate()
        try:
            return self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(line.rstrip("\n") for line in self.process.stderr)

    def _failure(self, what: str) -> str:
        return "\n".join([f"the service at {self.url} did not start: {what}", *self.log])


@contextmanager
def running(settings: Settings, port: int = 0) -> Iterator[ServerProcess]:
    """Serve ``settings`` from a new process until the block ends; port 0 takes a free one."""
    port = port or _free_port()
    server = settings.server.model_copy(update={"host": "127.0.0.1", "port": port, "workers": 1})
    with TemporaryDirectory(prefix="rag-") as folder:
        # -P: a folder named rag in the working directory must not stand in for the installed package.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rag.api"],
            env=environment(settings.model_copy(update={"server": server}), Path(folder)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C in a terminal reaches the whole group: the service is stopped by `stop` alone.
            start_new_session=True,
        )
        service = ServerProcess(process, f"http://127.0.0.1:{port}")
        try:
            yield service
        finally:
            service.stop()


def _health(client: httpx.Client) -> dict[str, Any]:
    try:
        health: dict[str, Any] = client.get("/health").json()
    except httpx.TransportError:
        return {"status": "starting"}
    return health


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
