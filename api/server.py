"""Running the application: ``rag serve`` and ``python -m rag.api``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from fastapi import FastAPI

from rag.api.app import create_app
from rag.api.logs import logging_config
from rag.config import CONFIG_VARIABLE, Settings

# The longest that a thread computing in Python keeps the interpreter's lock when the model thread wants it back, which
# that does after each of the thousand short operations of a pass: with Python's own 5 ms it would mostly wait.
_SWITCH_SECONDS = 0.0005


def serve(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; then finish the requests that were accepted, and end with exit code 0.

    With ``server.workers`` above 1 every worker process loads the models for itself.
    """
    options: dict[str, Any] = {
        "host": settings.server.host,
        "port": settings.server.port,
        "log_config": logging_config(settings.server.log_format),
        "access_log": False,
    }
    # uvicorn raises the signal again once all is finished; without this, a clean stop would look like a crash.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if settings.server.workers == 1:
        sys.setswitchinterval(_SWITCH_SECONDS)
        uvicorn.run(create_app(settings), **options)
        return
    with TemporaryDirectory(prefix="rag-") as folder:
        inherited = environment(settings, Path(folder))
        os.environ.clear()
        os.environ.update(inherited)
        uvicorn.run("rag.api.server:make_worker", factory=True, workers=settings.server.workers, **options)


def make_worker() -> FastAPI:
    """The application of one of several worker processes, with the configuration in force."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    return create_app()


def environment(settings: Settings, folder: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment variables under which another process of this product loads exactly ``settings``.

    They are written to a file in ``folder``; variables that would override it are left out.
    """
    path = folder / "settings.yaml"
    path.write_text(settings.to_yaml(), encoding="utf-8")
    fields = tuple(f"RAG_{name.upper()}" for name in Settings.model_fields)
    kept = {
        name: value
        for name, value in base.items()
        if not any(name.upper() == field or name.upper().startswith(f"{field}__") for field in fields)
    }
    return kept | {CONFIG_VARIABLE: str(path)}
