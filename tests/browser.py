"""Headless Chromium for tests of pages, and addresses of folders on disk and over HTTP."""

import functools
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
SCHEMES = ("file", "http")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def chromium() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@contextmanager
def address_of(folder: Path, scheme: str) -> Iterator[str]:
    """The address of a folder on disk, or of a server for it if `scheme` is "http"."""
    if scheme == "file":
        yield folder.as_uri()
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def watched(browser: Any, width: int, address: str, **options: Any) -> Any:
    """Return a page that records its messages and its requests to other addresses in ``printed``."""
    page = browser.new_page(viewport={"width": width, "height": 800}, **options)
    page.printed = []
    own = (address, "data:", "blob:")
    page.on("console", lambda message: page.printed.append(message.text))
    page.on("pageerror", lambda error: page.printed.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(own) else page.printed.append(request.url))
    return page
