"""The deck and the handout in a real browser: how they look, on screens, on paper and to axe."""

import json
import random
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from deck import COUNT, LANGUAGES, RING, ROOT, SCREEN, SOURCE, STEPS, open_deck, press, script
from playwright.sync_api import Browser, BrowserContext, Page

SIZES = [(1280, 720), (1920, 1080), (1024, 768), (400, 800)]


def test_languages_show_one_or_both(page: Page):
    seen = []
    for _ in range(4):
        visible = page.locator("section.on [lang]:visible")
        texts = visible.evaluate_all("texts => texts.map(text => text.lang)")
        seen.append((set(texts), page.evaluate("document.documentElement.lang")))
        press(page, "l")
    both = ({"en", "zh-TW"}, "en")
    assert seen == [both, ({"en"}, "en"), ({"zh-TW"}, "zh-TW"), both]


def on_every_slide(page: Page, look: str) -> list[str]:
    """What a look at each slide, and at each step of one, finds wrong."""
    return page.evaluate(script("tour"), [look, COUNT + STEPS])


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_overflows(context: BrowserContext, language: str):
    """Each box stands within its slide, clear of the buttons; no text is wider than its box."""
    page = open_deck(context, language=language)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert not on_every_slide(page, script("overflow")), f"{width} × {height}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_text_is_at_least_24_pixels_high(context: BrowserContext, language: str):
    look = script("small_text")
    page = open_deck(context, language=language)
    assert not on_every_slide(page, look)
    for view in ["n", "e", "Escape", "?"]:  # notes, editing, neither, keys
        page.keyboard.press(view)
        assert not page.evaluate(look)


def test_bars_are_as_long_as_their_numbers_say(page: Page):
    read = "bars => bars.map(bar => bar.style.getPropertyValue('--times'))"
    ratios = re.findall(r'<span data-run="[^"]*#ratio">(.*?)</span>', SOURCE)
    assert len(ratios) > 1
    assert page.locator(".bar").evaluate_all(read) == ratios


SLIDES = range(1, COUNT + 1)
DRAWN = sorted(random.Random(SOURCE).sample(SLIDES, 3))  # others after a change of the deck
STEPPED = "ArrowRight ArrowRight ArrowRight"
VIEWS = [STEPPED, "n", "e", "Escape n o", "o ?", "Escape Home n", "n l l End"]


@pytest.mark.parametrize(
    ("slides", "views"),
    [
        pytest.param(DRAWN, ["n", "e"], id="three slides"),
        pytest.param(SLIDES, VIEWS, id="all slides and views", marks=pytest.mark.thorough),
    ],
)
def test_axe_finds_nothing(context: BrowserContext, slides: list[int], views: list[str]):
    """Contrast, names, landmarks, headings: three slides each day; all slides and views."""
    page = open_deck(context)
    Axe().run(page)  # leaves its script in the page

    def check(what: str) -> None:
        run = "axe.run({ resultTypes: ['violations'] })"
        violations = page.evaluate(f"{run}.then((found) => found.violations)")
        assert not violations, f"{what}: {json.dumps(violations, indent=1)}"

    def show(number: int) -> None:
        page.evaluate(f"location.hash = '#/{number}'")
        counter = "document.querySelector('#counter').textContent"
        page.wait_for_function(f"() => {counter}.startsWith('{number:02}')")

    for number in slides:
        show(number)
        check(f"slide {number}")
    show(RING)
    for keys in views:
        for key in keys.split():
            page.keyboard.press(key)
        check(f"after {keys}")


def test_motion_is_left_out_for_those_who_ask(browser: Browser):
    for motion, name in [("reduce", "none"), ("no-preference", "appear")]:
        with browser.new_context(viewport=SCREEN, reduced_motion=motion) as context:
            slide = open_deck(context).locator("section.on")
            assert slide.evaluate("s => getComputedStyle(s).animationName") == name


def test_without_its_script_the_page_still_shows_all_slides(browser: Browser):
    with browser.new_context(viewport=SCREEN, java_script_enabled=False) as context:
        assert open_deck(context).locator("h1:visible").count() == COUNT


def test_a_screen_higher_than_16_to_9_is_written_larger(page: Page):
    size = "text => parseFloat(getComputedStyle(text).fontSize)"
    text = page.locator(".rows [lang=en]").first
    for width, height, pixels in [(1024, 576, 20.8), (1024, 768, 24)]:
        page.set_viewport_size({"width": width, "height": height})
        assert text.evaluate(size) == pytest.approx(pixels, abs=0.1)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_one_language_alone_is_written_larger(context: BrowserContext, language: str):
    """Every text but titles and labels, against the same text beside the other language."""
    sizes = """code => [...document.querySelectorAll(`section.on [lang^=${code}]`)]
        .filter(text => !text.closest("header, .notes"))
        .map(text => [parseFloat(getComputedStyle(text).fontSize), text.textContent])"""
    page = open_deck(context)
    beside = []
    for slide in range(1, COUNT + 1):
        beside += page.evaluate(sizes, language)
        page.evaluate("show(current + 1)")
        assert slide == COUNT or page.url.endswith(f"#/{slide + 1}")
    page = open_deck(context, language=language)
    alone = []
    for _ in range(COUNT):
        alone += page.evaluate(sizes, language)
        page.evaluate("show(current + 1)")
    assert len(alone) == len(beside) > 50
    pairs = zip(alone, beside, strict=True)
    assert not [text for (one, text), (both, _) in pairs if one <= both]


def test_the_handout_is_written_in_10_points(context: BrowserContext):
    page = open_deck(context, ROOT / "assets" / "handout.html")
    page.emulate_media(media="print")
    sizes = page.locator("main :is(p, li, td, span, h2)").evaluate_all(
        "parts => parts.map(part => parseFloat(getComputedStyle(part).fontSize))"
    )
    assert min(sizes) >= 14  # pixels: 10.5 points
    code = page.locator("code, pre").evaluate_all(
        "parts => parts.map(part => parseFloat(getComputedStyle(part).fontSize))"
    )
    assert min(code) >= 13


def test_the_handout_is_one_page_on_paper_and_fits_a_phone(context: BrowserContext):
    page = open_deck(context, ROOT / "assets" / "handout.html")
    pdf = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1
    assert b"0 0 594.95996 841.91998" in pdf or b"0 0 595" in pdf  # A4
    assert not Axe().run(page).response["violations"]
    for width in (400, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
