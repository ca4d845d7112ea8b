"""The site in a real browser: one language at a time, search, cards; and it loads only itself."""

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("index.html", "notebooks/05_collectives.html", "assets/glossary.html")
LESSON = "notebooks/06_ddp.html"
# How many texts of a language are marked, and how many of them are painted.
MARKED = "language => document.querySelectorAll(`main [lang^=${language}]`).length"
PAINTED = """language => [...document.querySelectorAll(`main [lang^=${language}]`)]
    .filter(text => text.checkVisibility() && !text.closest('details:not([open])')).length"""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def opened(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    return page


@pytest.mark.parametrize("name", PAGES)
def test_one_language_hides_the_other_and_nothing_else(
    reading: BrowserContext, site: Path, name: str
) -> None:
    page = opened(reading, f"{site.as_uri()}/{name}")
    both = {language: page.evaluate(PAINTED, language) for language in ("en", "zh")}
    assert min(both.values()) > 10
    for button, shown, hidden in (("EN", "en", "zh"), ("中文", "zh", "en")):
        page.get_by_role("button", name=button, exact=True).click()
        assert page.evaluate(PAINTED, hidden) == 0
        assert page.evaluate(PAINTED, shown) == both[shown]


def test_the_language_is_kept_over_reload_and_links(reading: BrowserContext, address: str) -> None:
    page = opened(reading, f"{address}/{LESSON}")
    page.get_by_role("button", name="中文", exact=True).click()
    page.reload()
    assert page.evaluate(PAINTED, "en") == 0
    page.locator(".prev-next-area a.right-next").click()
    assert "07_compile.html?lang=zh" in page.url
    assert page.evaluate(PAINTED, "en") == 0


@pytest.mark.parametrize(
    "query", ["梯度", "集體通訊", "all_reduce", "bucket", "Watchdog caught collective"]
)
def test_the_search_finds(reading: BrowserContext, address: str, query: str) -> None:
    page = opened(reading, f"{address}/search.html?q={query}")
    results = page.locator("#course-results > li")
    assert results.count() > 0
    assert query.split()[0].lower() in results.first.inner_text().lower()
    results.first.locator("a").click()
    assert page.locator("main h1").count() == 1


def test_a_word_that_is_nowhere_is_not_found(reading: BrowserContext, site: Path) -> None:
    page = opened(reading, f"{site.as_uri()}/search.html?q=xqzvw")
    assert page.locator("#course-results > li").count() == 0
    assert page.locator("#course-found").inner_text() == "0 · xqzvw"


def test_hits_of_the_shown_language_come_first(reading: BrowserContext, site: Path) -> None:
    page = opened(reading, f"{site.as_uri()}/search.html?q=bucket&lang=zh")
    first = page.locator("#course-results .excerpt").first
    assert first.get_attribute("lang") == "zh-Hant-TW"
    both = opened(reading, f"{site.as_uri()}/search.html?q=bucket")
    assert (
        page.locator("#course-results > li").count() == both.locator("#course-results > li").count()
    )


def test_a_prediction_hides_its_results_until_asked(reading: BrowserContext, site: Path) -> None:
    page = opened(reading, f"{site.as_uri()}/{LESSON}")
    hidden = page.locator(".guess-1")
    assert hidden.count() > 1
    assert not any(node.is_visible() for node in hidden.all())
    page.locator('[data-guess="1"]').click()
    assert all(node.is_visible() for node in hidden.all())
    assert not page.locator(".guess-2").first.is_visible()


def test_without_scripts_nothing_is_hidden(browser, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = opened(context, f"{site.as_uri()}/{LESSON}")
    assert page.locator(".guess").first.is_visible()
    assert page.locator("[data-guess]").first.is_hidden()
    context.close()


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("name", ["index.html", LESSON, "assets/error-texts.html"])
def test_no_page_scrolls_sideways(
    reading: BrowserContext, site: Path, name: str, width: int
) -> None:
    page = opened(reading, f"{site.as_uri()}/{name}")
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate(SIDEWAYS) <= 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index.html", LESSON, "assets/glossary.html"])
def test_axe_finds_nothing(reading: BrowserContext, site: Path, name: str, theme: str) -> None:
    page = opened(reading, f"{site.as_uri()}/{name}")
    page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
    found = Axe().run(page).response["violations"]
    assert not [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found]


def test_every_link_leads_somewhere(site: Path) -> None:
    dead = []
    ids: dict[Path, set[str]] = {}
    for path in site.glob("**/*.html"):
        ids[path] = set(re.findall(r'\bid="([^"]+)"', path.read_text()))
    for path in ids:
        for link in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', path.read_text()):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, place = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if target not in ids or (place and place not in ids[target]):
                dead.append(f"{path.relative_to(site)} → {link}")
    assert not dead


def test_solutions_are_folded_and_every_exercise_has_one(site: Path) -> None:
    for path in sorted((site / "notebooks").glob("[01]*.html")):
        text = path.read_text()
        exercises = len(re.findall(r'<section class="exercise"', text))
        assert exercises >= 2
        assert text.count('<details class="solution">') == exercises, path.name


def test_an_external_host_is_never_asked(site: Path) -> None:
    for path in site.glob("**/*.html"):
        text = path.read_text()
        assert not re.search(r'<(?:script|img|iframe)\b[^>]*src="https?:', text), path.name
        assert not re.search(r'<link\b[^>]*rel="stylesheet"[^>]*href="https?:', text), path.name
