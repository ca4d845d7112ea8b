"""The site in real browsers: one language at a time, search, keyboard; it loads only itself."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page

from course.languages import CJK

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
FRONT = "index.html"
LESSON = "notebooks/06_ddp.html"
FULL_OF_FIGURES = "notebooks/09_faster.html"
CONVERT = "assets/convert.html"
GLOSSARY = "assets/glossary.html"
ERRORS = "assets/error-texts.html"
ERROR = "errors/address-already-in-use.html"
RUN_SHEET = "assets/run-sheet.html"
SEARCH = "search.html?q=bucket"
# The checker takes five seconds for each of the first, and a minute for the others together. What
# lessons are made of is also judged in test_site_reading.py, one of each kind.
SHORT = (FRONT, ERROR, SEARCH)
LONG = [
    pytest.param(name, marks=pytest.mark.thorough)
    for name in ("notebooks/05_collectives.html", LESSON, GLOSSARY, ERRORS)
]
EVERY_KIND = (FRONT, LESSON, GLOSSARY, ERRORS, ERROR, RUN_SHEET, SEARCH)
LANGUAGES = {"both": "both · 都看", "en": "EN", "zh": "中文"}
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
# Painted texts of the other language, those marked for one language, and places left empty.
TEXTS = (HERE / "site_texts.js").read_text()
CODES = """cells => cells.map(cell => {
    const codes = [...cell.querySelectorAll('code')];
    const texts = codes => codes.map(code => code.innerText);
    return { written: texts(codes), shown: texts(codes.filter(code => code.checkVisibility())) };
})"""
LABELS = """other => [...document.querySelectorAll('[aria-label], [title], [placeholder]')]
    .filter(it => !it.closest(`[lang^=${other}]:not(html), .course-language`))
    .flatMap(it => ['aria-label', 'title', 'placeholder'].map(name => it.getAttribute(name)))
    .filter(Boolean)"""
OPEN = "document.querySelectorAll('details').forEach(fold => { fold.open = true; })"
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FOCUSED = """selector => {
    const focused = document.activeElement;
    const style = getComputedStyle(focused);
    const width = focused.getBoundingClientRect().width;
    const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 && width > 0;
    return [seen, focused.matches(selector)];
}"""
LOADED = """() => [performance.getEntriesByType('navigation')[0],
    ...performance.getEntriesByType('resource')].reduce((sum, it) => sum + it.decodedBodySize, 0)"""
# Of the coloured words of programs, one of each kind is enough to judge: there are thousands.
ONE_OF_EACH = """() => {
    const seen = new Set();
    for (const word of document.querySelectorAll('pre span[class]:not([id])')) {
        const block = word.closest('.highlight, .output')?.parentElement.className;
        const kind = `${word.className} in ${block}`;
        if (seen.has(kind)) word.replaceWith(...word.childNodes);
        seen.add(kind);
    }
}"""
MEGABYTES_AT_FIRST = 2
MEGABYTES_OF_INDEX = 1.3
# Colours do not depend on the language, nor names and order on the colours.
AXE = {"resultTypes": ["violations"], "preload": False}
COLOURS = AXE | {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
ORDER = AXE | {"rules": {"color-contrast": {"enabled": False}}}


def opened(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    page.locator("[aria-busy=true]").wait_for(state="detached")  # a search unpacks its index
    return page


def choose(page: Page, language: str) -> None:
    page.locator(f"[data-choose={language}]").click()


def texts(page: Page, language: str) -> dict:
    return page.evaluate(TEXTS, language)


def found(page: Page) -> list[str]:
    return page.locator("#course-results > li").all_inner_texts()


def axe(page: Page, options: dict) -> list[tuple[str, str]]:
    violations = Axe().run(page, options=options).response["violations"]
    return [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in violations]


@pytest.mark.parametrize("name", EVERY_KIND)
def test_one_language_hides_the_other_and_nothing_else(
    reading: BrowserContext, site: Path, name: str
) -> None:
    page = opened(reading, f"{site.as_uri()}/{name}")
    page.evaluate(OPEN)
    both = texts(page, "both")
    assert min(both["marked"]["en"], both["marked"]["zh"]) > 10
    for language in ("en", "zh"):
        choose(page, language)
        shown = texts(page, language)
        assert not shown["foreign"]
        assert not shown["empty"]
        if name != SEARCH:  # its order and excerpts are those of the language
            assert shown["marked"][language] == both["marked"][language]
        assert page.locator("html").get_attribute("lang")[:2] == language


@pytest.mark.parametrize("name", [FRONT, LESSON, ERROR, SEARCH])
def test_no_label_is_in_the_other_language(reading: BrowserContext, site: Path, name: str) -> None:
    page = opened(reading, f"{site.as_uri()}/{name}")
    choose(page, "en")
    labels = page.evaluate(LABELS, "zh")
    assert len(labels) > 10
    assert not [label for label in labels if CJK.search(label)]
    choose(page, "zh")
    assert page.locator(".primary-toggle").get_attribute("aria-label") == "課程目錄"
    labels = page.evaluate(LABELS, "en")
    assert len(labels) > 10
    english = [label for label in labels if re.search("[a-z]{2}", label)]
    assert not [label for label in english if not CJK.search(label)]


def test_the_language_is_kept_over_reload_and_links(reading: BrowserContext, address: str) -> None:
    page = opened(reading, f"{address}/{LESSON}")
    choose(page, "zh")
    page.reload()
    assert not texts(page, "zh")["foreign"]
    page.locator(".prev-next-area a.right-next").click()
    page.wait_for_url("**/07_compile.html?lang=zh")
    choose(page, "en")
    choose(page, "zh")
    page.locator(".bd-links a", has_text="錯誤訊息").click()
    page.wait_for_url(f"**/{ERRORS}?lang=zh")
    assert not texts(page, "zh")["foreign"]
    choose(page, "both")
    page.reload()
    assert page.locator("[data-choose=both]").get_attribute("aria-pressed") == "true"


def test_every_link_of_a_page_carries_the_language(reading: BrowserContext, site: Path) -> None:
    """As in Firefox, where pages of file:// share no storage."""
    page = opened(reading, f"{site.as_uri()}/{FRONT}?lang=en")
    links = page.locator("a").evaluate_all("all => all.map(it => it.getAttribute('href'))")
    pages = [link for link in links if link and ".html" in link and not link.startswith("http")]
    assert len(pages) > 30
    assert all("?lang=en" in link for link in pages)


@pytest.mark.parametrize(
    "query", ["梯度", "集體通訊", "all-reduce", "bucket", "Watchdog caught collective"]
)
def test_the_search_finds(reading: BrowserContext, site: Path, query: str) -> None:
    page = opened(reading, f"{site.as_uri()}/search.html?q={query}")
    results = page.locator("#course-results > li")
    assert results.count() > 0
    assert query.lower() in results.first.inner_text().lower()
    assert results.first.locator("mark").first.inner_text().lower() == query.lower()
    results.first.locator("a").click()
    page.wait_for_url(re.compile(r"\.html.*#"))
    target = page.evaluate("decodeURIComponent(location.hash.slice(1))")
    assert page.locator(f"[id='{target}']").count() == 1


def test_the_search_for_words_that_are_nowhere_says_what_to_try(
    reading: BrowserContext, site: Path
) -> None:
    page = opened(reading, f"{site.as_uri()}/search.html?q=xqzvw&lang=en")
    assert not found(page)
    assert page.locator("#course-nothing").is_visible()
    assert page.locator("#course-nothing").inner_text().startswith("Nothing found. Try")
    page.locator("#course-query").fill("吱蟂")
    assert not found(page)
    page.locator("#course-query").fill("gradient")
    assert found(page)
    assert not page.locator("#course-nothing").is_visible()


def test_hits_of_the_shown_language_come_first_and_none_is_lost(
    reading: BrowserContext, site: Path
) -> None:
    numbers = set()
    for language, mark in {"zh": "zh", "en": "en", "both": ""}.items():
        page = opened(reading, f"{site.as_uri()}/search.html?q=bucket&lang={language}")
        excerpts = page.locator("#course-results .excerpt")
        numbers.add(excerpts.count())
        fields = excerpts.evaluate_all("all => all.map(it => it.dataset.field)")
        if mark:
            assert set(fields[:5]) == {mark}
    assert len(numbers) == 1


def test_chinese_is_found_by_its_words_and_a_pasted_message_by_most_words(
    reading: BrowserContext, site: Path
) -> None:
    page = opened(reading, f"{site.as_uri()}/search.html?q=梯度桶")
    assert found(page)
    assert set(page.locator("mark").all_inner_texts()) >= {"梯度", "桶"}
    message = "[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7) ran"
    page.locator("#course-query").fill(message)
    first = page.locator("#course-results a").first
    assert re.search("errors/|error-texts", first.get_attribute("href"))
    page.locator("#course-query").fill("Watchdog caught collective")
    first = page.locator("#course-results a").first
    assert re.search("errors/|error-texts", first.get_attribute("href"))


def test_each_text_of_an_error_that_has_several_finds_its_page(
    reading: BrowserContext, site: Path
) -> None:
    page = opened(reading, f"{site.as_uri()}/search.html")
    message = "Expected tensor on cuda:1 but found tensor on cuda:0"  # lesson 06 has it whole
    page.locator("#course-query").fill(message)
    first = page.locator("#course-results a").first
    assert "errors/duplicate-gpu" in first.get_attribute("href")


def test_the_index_is_small_and_loaded_by_the_search_alone(site: Path) -> None:
    assert (site / "_static/sections.js").stat().st_size < MEGABYTES_OF_INDEX * 1e6
    users = [path.name for path in site.glob("**/*.html") if "sections.js" in path.read_text()]
    assert users == ["search.html"]


def test_the_search_is_reached_by_keyboard(reading: BrowserContext, site: Path) -> None:
    page = opened(reading, f"{site.as_uri()}/{LESSON}?lang=zh")
    page.keyboard.press("Control+k")
    page.keyboard.type("bucket")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"search\.html\?q=bucket&lang=zh"))
    page.locator("[aria-busy=true]").wait_for(state="detached")
    assert found(page)


def test_lessons_follow_one_another(reading: BrowserContext, site: Path) -> None:
    """From the first to the last by *next*, and back by *previous*."""
    names = LESSONS
    links = {}
    for name in names:
        text = (site / f"notebooks/{name}.html").read_text()
        for side in ("left-prev", "right-next"):
            links[name, side] = re.search(rf'class="{side}"\s+href="([^"]+)"', text)[1]
    for name, following in pairwise(names):
        assert links[name, "right-next"] == f"{following}.html"
        assert links[following, "left-prev"] == f"{name}.html"
    page = opened(reading, f"{site.as_uri()}/notebooks/{names[0]}.html")
    page.locator(".right-next").click()
    page.wait_for_url(f"**/{names[1]}.html")
    page.locator(".left-prev").click()
    page.wait_for_url(f"**/{names[0]}.html")


def test_the_lessons_are_put_away_and_taken_out(reading: BrowserContext, site: Path) -> None:
    page = opened(reading, f"{site.as_uri()}/{LESSON}")
    lessons = page.locator(".bd-links a[href^='00_start_here']")
    for shown in (False, True):
        page.locator("[data-act=lessons]").click()
        assert lessons.is_visible() == shown
    page.set_viewport_size({"width": 400, "height": 900})
    lessons.wait_for(state="hidden")
    page.locator(".primary-toggle").click()
    lessons.wait_for()
    assert page.locator(f"dialog[open] a[href^='../{FRONT}']").is_visible()
    page.keyboard.press("Escape")
    lessons.wait_for(state="hidden")


def test_dark_is_dark_and_stays(reading: BrowserContext, site: Path) -> None:
    page = opened(reading, f"{site.as_uri()}/{LESSON}")
    page.locator(".theme-switch-button").click()
    page.locator(".theme-change-button[data-mode=dark]").click()
    for _ in range(2):
        colours = page.evaluate(
            "() => [document.body, document.querySelector('.highlight pre'), "
            "document.querySelector('.bd-sidebar-primary')]"
            ".map(it => getComputedStyle(it).backgroundColor)"
        )
        for colour in colours:
            values = [float(value) for value in re.findall(r"[\d.]+", colour)]
            assert max(values[:3]) < 80 or values[3:] == [0]
        page.reload()


@pytest.mark.parametrize("name", [*EVERY_KIND, "notebooks/12_break_it.html"])
def test_no_page_scrolls_sideways(reading: BrowserContext, site: Path, name: str) -> None:
    page = opened(reading, f"{site.as_uri()}/{name}")
    page.evaluate(OPEN)
    for language in LANGUAGES:
        choose(page, language)
        for width in (400, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(SIDEWAYS) <= 0, (width, language)
            buttons = page.locator(".bd-header :is(button, a):visible")
            tops = buttons.evaluate_all("all => all.map(it => it.getBoundingClientRect())")
            assert max(box["bottom"] for box in tops) < 64, width  # one row
            assert max(box["right"] for box in tops) <= width


@pytest.mark.parametrize("name", [CONVERT, LESSON])
def test_the_conversion_table_is_read_downwards_on_a_phone(
    reading: BrowserContext, site: Path, name: str
) -> None:
    page = opened(reading, f"{site.as_uri()}/{name}")
    table = page.locator("table", has_text="mutually exclusive").first
    page.set_viewport_size({"width": 400, "height": 900})
    box = table.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 400
    ends = table.locator("code").evaluate_all("all => all.map(it => it.getBoundingClientRect())")
    assert len(ends) > 60
    assert max(end["right"] for end in ends) <= box["x"] + box["width"]
    assert page.evaluate(SIDEWAYS) <= 0


@pytest.mark.parametrize("name", [CONVERT, "notebooks/12_break_it.html"])
def test_every_language_has_all_code_of_a_cell(
    reading: BrowserContext, site: Path, name: str
) -> None:
    page = opened(reading, f"{site.as_uri()}/{name}")
    page.evaluate(OPEN)
    cells = page.locator("td")
    for language in ("en", "zh"):
        choose(page, language)
        for codes in cells.evaluate_all(CODES):
            assert set(codes["shown"]) == set(codes["written"]), language


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element has the focus, which must be seen at each step."""
    for _ in range(400):
        page.keyboard.press("Tab")
        seen, there = page.evaluate(FOCUSED, selector)
        assert seen, page.evaluate("document.activeElement.outerHTML")
        if there:
            return
    raise AssertionError(f"Tab does not lead to {selector}")


def test_by_keyboard_from_the_front_page_to_a_solution(reading: BrowserContext, site: Path) -> None:
    page = opened(reading, f"{site.as_uri()}/{FRONT}")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").startswith("Skip to main content")
    tab_to(page, "a[href*='06_ddp.html']")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("06_ddp"))
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skips to the lesson
    tab_to(page, ".exercise *")
    tab_to(page, "details.solution > summary")
    assert not page.locator("details.solution pre").first.is_visible()
    page.keyboard.press("Enter")
    assert page.locator("details.solution[open] pre").first.is_visible()


@pytest.mark.parametrize("name", [*SHORT, *LONG])
def test_axe_finds_nothing(reading: BrowserContext, site: Path, name: str) -> None:
    """Cards and folds open: colours in light and dark, everything else in each language."""
    page = opened(reading, f"{site.as_uri()}/{name}")
    page.evaluate(OPEN)
    page.evaluate("document.querySelectorAll('.guessed').forEach(card => card.click())")
    page.evaluate(ONE_OF_EACH)
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        assert not axe(page, COLOURS), theme
    for language in LANGUAGES:
        choose(page, language)
        assert not axe(page, ORDER), language


def test_every_link_leads_somewhere(site: Path) -> None:
    dead = []
    pages = {path: path.read_text() for path in site.glob("**/*.html")}
    ids = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        for link in re.findall(r'<(?:a|link)\b[^>]*\bhref="([^"]+)"', text):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, place = link.partition("#")
            target = (path.parent / name.partition("?")[0]).resolve() if name else path
            if not target.is_file() or (place and place not in ids.get(target, ())):
                dead.append(f"{path.relative_to(site)} → {link}")
        for source in re.findall(r'<(?:img|script)\b[^>]*\bsrc="([^":]+)"', text):
            if not (path.parent / source.partition("?")[0]).is_file():
                dead.append(f"{path.relative_to(site)} → {source}")
    assert not dead


def test_no_page_names_a_placeholder(site: Path) -> None:
    """Where the course is, is said by `make address`, or not at all."""
    pages = [path for path in site.glob("**/*") if path.suffix in (".html", ".js", ".ipynb")]
    assert len(pages) > 150
    for path in pages:
        assert not re.search(r"\bOWNER/|/REPO\b", path.read_text()), path


def test_every_page_is_small_quiet_and_has_a_policy(reading: BrowserContext, served: str) -> None:
    """What goes wrong, or is asked of another host, is told by the fixture."""
    own = ("assets/deck.html", "assets/handout.html")  # one file each
    for name in (*EVERY_KIND, FULL_OF_FIGURES, *own):
        page = opened(reading, f"{served}/{name}")
        rule = page.locator('meta[http-equiv="Content-Security-Policy"]').get_attribute("content")
        assert rule.startswith("default-src 'none'"), name
        if name not in own:
            assert "unsafe-inline" not in re.search("script-src[^;]*", rule)[0], name
        assert page.evaluate(LOADED) < MEGABYTES_AT_FIRST * 1e6, name
        assert name != SEARCH or found(page)
        page.close()


def test_the_policy_refuses_a_script_that_was_put_in(browser: Browser, site: Path) -> None:
    """The policy is at work: a script of somebody else does not run."""
    context = browser.new_context()
    page = opened(context, f"{site.as_uri()}/{ERROR}")
    page.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.intruder = true';
        document.head.append(script);
    }""")
    assert page.evaluate("window.intruder") is None
    context.close()


def test_nothing_lies_in_the_site_that_no_page_asks_for(site: Path) -> None:
    texts = {}
    for kind in ("**/*.html", "_static/**/*.css", "_static/**/*.js"):
        texts |= {path: path.read_text() for path in site.glob(kind)}
    for file in site.glob("_*/**/*"):
        if file.is_file() and ".LICENSE" not in file.name:
            assert any(file.name in text for path, text in texts.items() if path != file), file
