"""The deck, for its tests: what its file says, and how to use it in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `make check` reads the deck's file without a browser
    from playwright.sync_api import BrowserContext, Page

ROOT = Path(__file__).resolve().parents[2]
DECK = ROOT / "assets" / "deck.html"
SOURCE = DECK.read_text()
COUNT = len(re.findall(r"^<section\b", SOURCE, re.MULTILINE))
STEPS = sum(map(int, re.findall(r'data-steps="(\d+)"', SOURCE)))
RING = 11  # the slide with the stepped picture
SCREEN = {"width": 1280, "height": 720}
LANGUAGES = ["both", "en", "zh"]
ADDRESS = "kaggle.com/code/a-teacher/distributed-pytorch-workshop"  # of a class
WORKSHOP = "kaggle.com/code/somebody/distributed-pytorch-workshop"
REPOSITORY = "github.com/us/course"


def script(name: str) -> str:
    """A function in JavaScript, from the file beside this one."""
    return Path(__file__).with_name(f"{name}.js").read_text()


def open_deck(
    context: BrowserContext, path: Path = DECK, slide: int = 1, language: str = "both"
) -> Page:
    page = context.new_page()
    page.goto(f"{path.as_uri()}#/{slide}")
    for _ in range(LANGUAGES.index(language)):
        page.keyboard.press("l")
    return page


def addressed(folder: Path, address: str = ADDRESS) -> Path:
    """A copy of the deck with the class's address and those of the course, whatever it had."""
    copy = folder / "addressed.html"
    text = SOURCE
    for name, shown in {"class": address, "workshop": WORKSHOP, "course": REPOSITORY}.items():
        place = rf'(<code data-address="{name}">).*?(</code>)'
        text = re.sub(place, rf"\g<1>{shown}\g<2>", text)
    copy.write_text(text)
    return copy


def at(page: Page) -> int:
    """The number of the one slide that is shown; counter and address agree."""
    sections = "[...document.querySelectorAll('section')]"
    shown = page.evaluate(f"{sections}.map(s => s.checkVisibility()).indexOf(true) + 1")
    assert page.locator("section:visible").count() == 1
    assert page.locator("#counter").inner_text() == f"{shown:02} / {COUNT}"
    assert page.url.endswith(f"#/{shown}")
    return shown


def press(page: Page, keys: str) -> int:
    for key in keys.split():
        page.keyboard.press(key)
    return at(page)


def exported(page: Page, key: str = "Control+s") -> bytes:
    with page.expect_download() as download:
        page.keyboard.press(key)
    assert download.value.suggested_filename == "deck.html"
    assert "✓ Exported" in page.locator("#toast").inner_text()
    return Path(download.value.path()).read_bytes()
