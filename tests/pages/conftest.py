"""A real browser, in which a page may fetch nothing and nothing may go wrong."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from deck import SCREEN, open_deck
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

PACKAGES = "chromium fonts-noto-cjk fonts-liberation"


def installed_browser() -> str | None:
    """The path of a Chromium, if there is one."""
    names = ["chromium", "chromium-browser", "google-chrome"]
    return next(filter(None, map(shutil.which, names)), None)


def find_browser() -> str:
    """The path of a Chromium: as root on Debian it is installed where there is none."""
    remedy = f"apt-get install -y {PACKAGES}"
    if not installed_browser() and os.geteuid() == 0 and shutil.which("apt-get"):
        install = f"{remedy} || (apt-get update && {remedy})"
        subprocess.run(install, shell=True, capture_output=True, timeout=600, check=False)
    browser = installed_browser()
    if not browser:
        pytest.fail(f"There is no browser to open the deck in. As root: {remedy}", pytrace=False)
    return browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=options)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A new profile, in which a page may request nothing but itself, and nothing may go wrong."""
    context = browser.new_context(viewport=SCREEN, reduced_motion="reduce")
    context.set_default_timeout(10_000)
    requests = []
    errors = []
    context.on("request", lambda request: requests.append(request.url.partition("#")[0]))
    context.on("console", lambda message: errors.append(message.text))
    context.on("weberror", lambda error: errors.append(str(error.error)))
    yield context
    context.close()
    assert not errors
    allowed = re.compile("file://.*html$|blob:|data:|about:")
    assert all(allowed.match(request) for request in requests), requests


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return open_deck(context)


@pytest.fixture
def reading(browser: Browser) -> Iterator[BrowserContext]:
    """A new profile for the site: it asks nothing of another host, and nothing goes wrong."""
    context = browser.new_context(viewport=SCREEN, reduced_motion="reduce")
    context.set_default_timeout(10_000)
    requests = []
    errors = []
    context.on("request", lambda request: requests.append(request.url))
    context.on("console", lambda message: errors.append(message.text))
    context.on("weberror", lambda error: errors.append(str(error.error)))
    yield context
    context.close()
    assert not errors
    allowed = re.compile("file://|data:|http://127\\.0\\.0\\.1:")
    assert all(allowed.match(request) for request in requests), requests
