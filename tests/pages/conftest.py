"""A real browser, in which a page may fetch nothing and nothing may go wrong."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import debian
import pytest
from deck import SCREEN, open_deck
from once import once

if TYPE_CHECKING:  # `make check` installs no browser's driver
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = "chromium fonts-noto-cjk fonts-liberation"


def installed_browser() -> str | None:
    """The path of a Chromium, if there is one."""
    names = ["chromium", "chromium-browser", "google-chrome"]
    return next(filter(None, map(shutil.which, names)), None)


def find_browser() -> str:
    """The path of a Chromium."""
    return debian.needed(installed_browser, PACKAGES, "browser to open the deck in")


@pytest.fixture
def chromium() -> str:
    """The path of the browser, for a command that no test drives."""
    return find_browser()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=options)
        yield browser
        browser.close()


@contextmanager
def watched(browser: Browser, kinds: set[str], allowed: str) -> Iterator[BrowserContext]:
    """A new profile: only `allowed` requests, and on the console nothing of these `kinds`.

    No kinds: nothing at all.
    """
    context = browser.new_context(viewport=SCREEN, reduced_motion="reduce")
    context.set_default_timeout(10_000)
    requests = []
    errors = []

    def keep(message: ConsoleMessage) -> None:
        if not kinds or message.type in kinds:
            errors.append(message.text)

    context.on("request", lambda request: requests.append(request.url.partition("#")[0]))
    context.on("console", keep)
    context.on("weberror", lambda error: errors.append(str(error.error)))
    yield context
    context.close()
    assert not errors
    assert all(re.match(allowed, request) for request in requests), requests


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A new profile, in which a page may request nothing but itself, and nothing may go wrong."""
    with watched(browser, set(), "file://.*html$|blob:|data:|about:") as context:
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return open_deck(context)


@pytest.fixture
def reading(browser: Browser) -> Iterator[BrowserContext]:
    """A new profile for the site: it asks nothing of another host, and nothing goes wrong."""
    # The theme also logs what it does.
    kinds = {"error", "warning"}
    with watched(browser, kinds, "file://|data:|http://127\\.0\\.0\\.1:") as context:
        yield context


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, built once from the kept outputs. Nobody writes into it.

    COURSE_SITE=folder takes one that is there, for who works at the site.
    """
    if "COURSE_SITE" in os.environ:
        return Path(os.environ["COURSE_SITE"]).resolve()
    from course.site import __main__ as site_build
    from course.sources import Course

    def make(folder: Path) -> None:
        assert site_build.build(Course(ROOT), folder / "sources", folder / "site") == 0

    return once(tmp_path_factory, "site", make) / "site"


@pytest.fixture(scope="session")
def served(site: Path) -> Iterator[str]:
    """The address of the site over http, on loopback."""
    handler = partial(SimpleHTTPRequestHandler, directory=site)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["file", "http"])
def address(request: pytest.FixtureRequest, site: Path, served: str) -> str:
    return site.as_uri() if request.param == "file" else served
