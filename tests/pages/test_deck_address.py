"""The class's address in a real browser: large, and as a QR code that a camera can read."""

import difflib
import io
import re
from pathlib import Path

import pytest
import zxingcpp
from axe_playwright_python.sync_playwright import Axe
from deck import (
    ADDRESS,
    COUNT,
    LANGUAGES,
    ROOT,
    STEPS,
    WORKSHOP,
    addressed,
    exported,
    open_deck,
    press,
    script,
)
from PIL import Image
from playwright.sync_api import BrowserContext, Page

from course.build.pages import filled_page
from course.sources import Course

SCREENS = [(1280, 720), (1024, 768), (390, 844)]


def scanned(page: Page) -> list[str]:
    """What the QR codes say that the screen shows, scrolled to where one is."""
    page.evaluate("""() => [...document.querySelectorAll(".qr svg")]
        .find((code) => code.checkVisibility())
        ?.scrollIntoView({ block: "center", inline: "center" })""")
    picture = Image.open(io.BytesIO(page.screenshot()))
    return [code.text for code in zxingcpp.read_barcodes(picture)]


@pytest.mark.parametrize("slide", [2, COUNT])
def test_without_an_address_the_audience_sees_none_and_no_instruction(
    context: BrowserContext, tmp_path: Path, slide: int
):
    page = open_deck(context, addressed(tmp_path, ""), slide)
    shown = page.locator("section.on").inner_text()
    assert not re.search(r"class_url|QR|press|按", shown)
    assert not page.locator("section.on .qr:visible").count()
    assert not scanned(page)
    page.keyboard.press("q")
    assert not page.locator("#over").is_visible()
    assert "No address" in page.locator("#toast").inner_text()


def test_the_speaker_is_told_how_to_set_an_address(context: BrowserContext):
    page = open_deck(context, slide=2)
    page.keyboard.press("n")
    notes = page.locator("section.on .notes p:visible").all_inner_texts()
    assert len(notes) == 2
    assert all("class_url" in text for text in notes)
    sheet = (ROOT / "assets" / "run-sheet.md").read_text()
    assert len(re.findall("^.*`class_url`.*slide|^.*`class_url`.*投影片", sheet, re.MULTILINE)) == 2


@pytest.mark.parametrize("slide", [2, COUNT])
def test_the_code_leads_to_the_class(context: BrowserContext, tmp_path: Path, slide: int):
    page = open_deck(context, addressed(tmp_path), slide)
    places = page.locator("section.on [data-address]:visible")
    assert places.all_inner_texts()[0] == ADDRESS
    assert WORKSHOP not in places.all_inner_texts()
    for width, height in SCREENS:
        page.set_viewport_size({"width": width, "height": height})
        assert scanned(page) == [f"https://{ADDRESS}"], f"{width} × {height}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_slides_with_an_address_do_not_overflow(
    context: BrowserContext, tmp_path: Path, language: str
):
    page = open_deck(context, addressed(tmp_path), language=language)
    for width, height in SCREENS:
        page.set_viewport_size({"width": width, "height": height})
        assert not page.evaluate(script("tour"), [script("overflow"), COUNT + STEPS])


def test_the_address_fills_the_screen(context: BrowserContext, tmp_path: Path):
    page = open_deck(context, addressed(tmp_path), 5)
    page.keyboard.press("q")
    assert page.locator("#over svg").bounding_box()["height"] == 600
    assert page.locator("#over").inner_text().strip() == ADDRESS
    assert scanned(page) == [f"https://{ADDRESS}"]
    assert not Axe().run(page).response["violations"]
    assert press(page, "ArrowRight") == 5  # any key leads back, and does no more
    assert not page.locator("#over").is_visible()
    press(page, "Home ArrowRight")
    page.locator("section.on .qr").click()
    assert page.locator("#over").is_visible()
    page.mouse.click(300, 300)
    assert not page.locator("#over").is_visible()


def test_the_code_follows_what_one_types(context: BrowserContext, tmp_path: Path):
    before = addressed(tmp_path, "")
    page = open_deck(context, before, 2)
    page.keyboard.press("e")
    box = page.locator('section.on [data-address="class"]')
    box.click()
    page.keyboard.type(ADDRESS)
    assert scanned(page) == [f"https://{ADDRESS}"]
    last = tmp_path / "deck.html"
    last.write_bytes(exported(page))
    lines = difflib.ndiff(before.read_text().splitlines(), last.read_text().splitlines())
    added = [line for line in lines if line[0] == "+"]
    assert len(added) == 2
    assert all(f'<code data-address="class">{ADDRESS}</code>' in line for line in added)

    again = open_deck(context, last, COUNT)
    assert scanned(again) == [f"https://{ADDRESS}"]
    assert exported(again) == last.read_bytes()

    page.keyboard.press("Control+a")
    page.keyboard.type("example.org/2")
    assert scanned(page) == ["https://example.org/2"]
    page.keyboard.press("Control+a")
    page.keyboard.press("Backspace")
    assert not scanned(page)
    assert not page.locator("section.on .qr:visible").count()
    assert exported(page) == before.read_bytes()


def test_the_handout_without_an_address_says_nothing_of_one(
    context: BrowserContext, tmp_path: Path
):
    text = (ROOT / "assets" / "handout.html").read_text()
    path = tmp_path / "handout.html"
    path.write_text(re.sub(r"(data-address=[^>]*>).*?(</code>|</p>)", r"\1\2", text))
    shown = open_deck(context, path).locator("main").inner_text()
    assert not re.search("class_url|Where it is|Today’s notebook", shown)


def test_the_handout_shows_the_address_on_one_page(context: BrowserContext, tmp_path: Path):
    course = Course(ROOT)
    course.listed = {**course.listed, "class_url": f"https://{ADDRESS}"}
    path = tmp_path / "handout.html"
    path.write_text(filled_page(course, ROOT / "assets" / "handout.html"))
    page = open_deck(context, path)
    assert page.locator('[data-address="class"]:visible').last.inner_text() == ADDRESS
    assert not Axe().run(page).response["violations"]
    pdf = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1
    page.evaluate("document.documentElement.style.zoom = 3")  # as sharp as paper
    assert scanned(page) == [f"https://{ADDRESS}"]
