"""The real page in a real Chromium. Only collected where it is asked for: ``make test-e2e``, ``pytest tests/e2e``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rag.api.process import running
from rag.config import Settings

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_TIMEOUT_MS = 300_000
DESK = {"width": 1440, "height": 1000}


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave this folder out of a run over all tests: it needs a browser, and takes minutes."""
    named = any("e2e" in Path(argument.partition("::")[0]).parts for argument in config.args)
    return None if named else True


@pytest.fixture(scope="session")
def service() -> Iterator[str]:
    """The address of the product's own process, over the default models."""
    with running(Settings()) as server:
        server.wait_ready()
        yield server.url


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _CHROMIUM)), None)
    assert path, f"no Chromium: none of {', '.join(_CHROMIUM)} is on the PATH, and CHROMIUM names none"
    with sync_playwright() as playwright:
        # Containers run this as root, and without a /dev/shm that is large enough.
        arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open an address in a fresh profile. At the end, whatever the page or its policy complained of is a failure.

    ``refusals``: whether answers of 4xx, which Chromium logs as errors of the console, are what the test is about.
    """
    contexts, complaints = [], []

    def start(url: str, *, size: dict[str, int] = DESK, refusals: bool = False, **options: Any) -> Any:
        context = browser.new_context(viewport=size, **options)
        context.set_default_timeout(_TIMEOUT_MS)
        contexts.append(context)
        page = context.new_page()

        def note(message: Any) -> None:
            refused = refusals and "the server responded with a status of 4" in message.text
            if message.type in ("error", "warning") and not refused:
                complaints.append(message.text)

        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
        page.goto(url)
        return page

    yield start
    for context in contexts:
        context.close()
    assert complaints == []
