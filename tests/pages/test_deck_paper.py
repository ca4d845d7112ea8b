"""The deck on paper: each page shows its slide, whichever slide is open and whoever prints."""

import html
import re
import subprocess
import unicodedata
from pathlib import Path

import pypdfium2
import pytest
from deck import COUNT, DECK, LANGUAGES, RING, SCREEN, SOURCE, STEPS, open_deck, press
from playwright.sync_api import Browser, BrowserContext


def plain(text: str) -> str:
    """As paper and file agree on it: without spaces, each sign in its usual form."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def titles(language: str) -> list[str]:
    """Each page's title. A slide with steps has a page more for each."""
    shown = []
    for section in re.findall(r"^<section\b.*?^</section>", SOURCE, re.DOTALL | re.MULTILINE):
        title = re.search("<h1>(.*?)</h1>", section)[1]
        for hidden in {"both": [], "en": ["zh-TW"], "zh": ["en"]}[language]:
            title = re.sub(f'<span lang="{hidden}">.*?</span>', "", title)
        steps = re.search(r'^<section [^>]*data-steps="(\d+)"', section)
        text = plain(html.unescape(re.sub("<.*?>", "", title)))
        shown += [text] * (1 + int(steps[1] if steps else 0))
    return shown


def check(pdf: Path | bytes, language: str) -> None:
    """A page of 1280 × 720 for each slide and step, with its title, in full light and dark."""
    expected = titles(language)
    others = {"en": titles("zh"), "zh": titles("en")}.get(language, [None] * len(expected))
    assert len(expected) == COUNT + STEPS
    with pypdfium2.PdfDocument(pdf) as document:
        assert len(document) == len(expected)
        pages = zip(document, expected, others, strict=True)
        for number, (page, title, hidden) in enumerate(pages, 1):
            assert page.get_size() == (960, 540)  # points: 96 pixels are 72
            text = page.get_textpage().get_text_range()
            assert title in plain(text), f"page {number}: {text[:80]}"
            assert hidden is None or hidden not in plain(text), f"page {number} has two languages"
            picture = page.render(scale=0.5).to_pil().convert("L")
            darkest, lightest = picture.getextrema()
            assert darkest < 60 and lightest > 230, f"page {number} is empty, or pale"
            width, height = picture.size
            darkest, lightest = picture.crop((0, height - 6, width, height)).getextrema()
            assert lightest - darkest < 8, f"page {number} is cut at its lower edge"


@pytest.mark.parametrize(("slide", "language"), [(1, "both"), (RING, "en"), (COUNT, "zh")])
def test_chromium_prints_the_deck_with_nobody_at_the_keys(
    tmp_path: Path, chromium: str, slide: int, language: str
):
    """At once, in the first moment of the open slide's appearance."""
    pdf = tmp_path / "deck.pdf"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    address = f"{DECK.as_uri()}?language={language}#/{slide}"
    command = [chromium, *options, f"--user-data-dir={tmp_path}", f"--print-to-pdf={pdf}"]
    subprocess.run([*command, address], check=True, capture_output=True, timeout=120)
    check(pdf, language)


PRINTED = [
    (1, "both", ""),
    (RING, "zh", "ArrowRight ArrowRight"),
    (5, "en", "o"),
    (14, "both", "e n"),
]
EVERY = [(slide, language, "") for slide in range(1, COUNT + 1) for language in LANGUAGES]


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(PRINTED, id="some"),
        pytest.param(EVERY, id="every slide and language", marks=pytest.mark.thorough),
    ],
)
def test_a_page_that_one_has_used_is_printed_whole(
    browser: Browser, cases: list[tuple[int, str, str]]
):
    """While things move, too: a page that asks for less motion would hide what is half there."""
    with browser.new_context(viewport=SCREEN, reduced_motion="no-preference") as context:
        for slide, language, keys in cases:
            page = open_deck(context, slide=slide, language=language)
            for key in keys.split():
                page.keyboard.press(key)
            check(page.pdf(prefer_css_page_size=True, print_background=True), language)
            page.close()


def test_paper_shows_every_step_of_the_ring(context: BrowserContext):
    page = open_deck(context, slide=RING)
    press(page, "ArrowRight ArrowRight")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    steps = page.locator("section.ring .captions > :visible .value")
    assert steps.all_inner_texts() == [f"{step} / 4" for step in range(5)]
    sums = page.locator("section.ring").evaluate_all(
        "rings => rings.map(ring => ring.querySelectorAll('text.sum').length)"
    )
    assert sums == [0, 0, 3, 6, 9]
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.locator("section").count() == COUNT
    assert page.locator(".captions .value:visible").inner_text() == "2 / 4"
    assert page.locator("section:visible").count() == 1
