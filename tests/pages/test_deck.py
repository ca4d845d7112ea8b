"""The deck in a real browser: every key and button, what it exports, how it looks, and that it is right."""

import difflib
import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]

import build
from languages import INNOCENT, TAIWAN, simplified

DECK = ROOT / "assets" / "deck.html"
SOURCE, HANDOUT = DECK.read_text(), (ROOT / "assets" / "handout.html").read_text()
COUNT = len(re.findall(r"^<section\b", SOURCE, re.MULTILINE))
STEPS = sum(map(int, re.findall(r'data-steps="(\d+)"', SOURCE)))
RING = 11  # the slide with the stepped picture
SCREEN = {"width": 1280, "height": 720}
SIZES = [(1280, 720), (1920, 1080), (1024, 768), (400, 800)]
LANGUAGES = ["both", "en", "zh"]


def find_browser() -> str:
    """The path of a Chromium: as root on Debian it is installed where there is none."""

    def found() -> str | None:
        return next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)

    remedy = "apt-get install -y chromium fonts-noto-cjk fonts-liberation"
    if not found() and os.geteuid() == 0 and shutil.which("apt-get"):
        install = f"{remedy} || (apt-get update && {remedy})"
        subprocess.run(install, shell=True, capture_output=True, timeout=600, check=False)
    return found() or pytest.fail(f"There is no browser to open the deck in. As root: {remedy}", pytrace=False)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=options)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A new profile, in which nothing may be requested but the page itself, and nothing may go wrong."""
    context = browser.new_context(viewport=SCREEN, reduced_motion="reduce")
    context.set_default_timeout(10_000)
    requests, errors = [], []
    context.on("request", lambda request: requests.append(request.url.partition("#")[0]))
    context.on("console", lambda message: errors.append(message.text))
    context.on("weberror", lambda error: errors.append(str(error.error)))
    yield context
    context.close()
    assert not errors
    assert all(re.match("file://.*html$|blob:|data:|about:", request) for request in requests), requests


def deck(context: BrowserContext, path: Path = DECK, slide: int = 1, language: str = "both") -> Page:
    page = context.new_page()
    page.goto(f"{path.as_uri()}#/{slide}")
    for _ in range(LANGUAGES.index(language)):
        page.keyboard.press("l")
    return page


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return deck(context)


def at(page: Page) -> int:
    """The number of the one slide that is shown; counter and address agree."""
    shown = page.evaluate("[...document.querySelectorAll('section')].map(s => s.checkVisibility()).indexOf(true) + 1")
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


# ---- keys, buttons, fingers


def test_keys_move_the_slides(page: Page):
    assert at(page) == 1
    assert press(page, "ArrowLeft") == press(page, "PageUp") == press(page, "Home") == 1
    assert [press(page, key) for key in ("ArrowRight", "Space", "PageDown")] == [2, 3, 4]
    assert [press(page, key) for key in ("ArrowLeft", "PageUp", "End")] == [3, 2, COUNT]
    assert press(page, "ArrowRight") == press(page, "PageDown") == COUNT
    assert press(page, "Home") == 1
    page.keyboard.press("Control+ArrowRight")
    page.keyboard.press("x")
    assert at(page) == 1
    for _ in range(COUNT + STEPS - 1):
        page.keyboard.press("ArrowRight")
    assert at(page) == COUNT


def test_the_buttons_do_what_their_keys_do(page: Page):
    def click(name: str) -> None:
        page.get_by_role("button", name=name).click()

    click("Forward"), click("Forward"), click("Back")
    assert at(page) == 2
    assert press(page, "Space") == 3  # the mouse leaves no button in focus, which Space would press again
    click("Language")
    assert page.evaluate("document.body.dataset.language") == "en"
    click("Overview")
    assert page.locator("section:visible").count() == COUNT
    click("Overview"), click("Edit")
    assert page.locator("#banner").is_visible()
    click("Edit"), click("Keys")
    assert page.get_by_role("dialog").is_visible() and not page.locator("#banner").is_visible()


def test_a_link_leads_to_a_slide(context: BrowserContext):
    page = deck(context, slide=7)
    assert at(page) == 7
    page.reload()
    assert at(page) == 7
    for asked, given in [("#/12", 12), ("#/999", COUNT), ("#/0", 1), ("#/3", 3), ("#nowhere", 3)]:
        page.evaluate("asked => { location.hash = asked; }", asked)
        page.wait_for_function("given => document.querySelectorAll('section')[given - 1].checkVisibility()", arg=given)
        if asked != "#nowhere":
            assert at(page) == given


def test_a_finger_turns_the_page(browser: Browser):
    context = browser.new_context(viewport={"width": 400, "height": 800}, has_touch=True)
    page = deck(context, slide=3)
    touch = context.new_cdp_session(page)

    def swipe(*path: tuple[int, int]) -> int:
        for kind, (x, y) in zip(["touchStart", "touchMove", "touchEnd"], path, strict=True):
            points = [] if kind == "touchEnd" else [{"x": x, "y": y}]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        return at(page)

    assert swipe((300, 300), (100, 310), (100, 310)) == 4
    assert swipe((100, 300), (300, 290), (300, 290)) == 3
    assert swipe((200, 500), (120, 200), (120, 200)) == 3  # the page scrolls
    context.close()


def test_the_overview_shows_all_slides_and_takes_one(page: Page):
    page.keyboard.press("o")
    shown = page.locator("section:visible")
    assert shown.count() == COUNT
    boxes = [shown.nth(n).bounding_box() for n in range(COUNT)]
    assert all(abs(box["width"] / box["height"] - 16 / 9) < 0.01 and box["width"] < 320 for box in boxes)
    shown.nth(5).click()
    assert at(page) == 6
    page.keyboard.press("o")
    for key in ["End", "ArrowLeft"]:
        page.keyboard.press(key)
    assert page.locator("section.on").evaluate("s => s.getBoundingClientRect().bottom <= innerHeight")
    page.keyboard.press("Enter")
    assert at(page) == COUNT - 1
    assert press(page, "o Escape") == COUNT - 1


def test_the_presenter_sees_what_comes_next_and_the_clock(context: BrowserContext):
    context.clock.install()
    page = deck(context)
    press(page, "ArrowRight")
    with page.expect_popup() as popup:
        page.keyboard.press("p")
    view = popup.value

    def titles() -> list[str]:
        return [text.split("\n")[0] for text in view.locator("section h1").all_inner_texts()]

    def clock() -> tuple[int, str, str]:
        time, plan, verdict = view.locator(".clock > :not(button)").all_inner_texts()
        minutes, seconds = time.split(":")
        return (60 * int(minutes) + int(seconds)) // 10, plan, verdict  # tens of seconds

    names = [text.split("\n")[0] for text in page.locator("h1").all_text_contents()]
    assert [name in text for name, text in zip(titles(), names[1:3], strict=True)] == [True, True]
    notes = page.locator("section").nth(1).locator(".notes p").all_text_contents()
    assert view.locator(".notes:visible p").all_text_contents() == notes
    assert clock()[:2] == (0, f"02 / {COUNT} · 1–3 min") and "1 min ahead" in clock()[2]
    page.clock.run_for(151_000)
    assert clock()[0] == 15 and "on time" in clock()[2]
    page.clock.run_for(300_000)
    assert clock()[0] == 45 and "5 min behind" in clock()[2]
    view.keyboard.press("ArrowRight")  # its keys move the class's slides, too
    assert at(page) == 3 and view.locator(".clock").inner_text().count(f"03 / {COUNT}") == 1
    view.get_by_role("button").click()
    assert clock()[0] == 0
    press(page, "End")
    assert view.locator("section").count() == 2 and clock()[1].endswith("86–90 min")
    found = Axe().run(view)
    assert not found.violations_count, found.generate_report()


def test_full_screen(page: Page):
    page.keyboard.press("f")
    page.wait_for_function("() => document.fullscreenElement === document.documentElement")
    page.keyboard.press("f")
    page.wait_for_function("() => document.fullscreenElement === null")


def test_help_lists_every_key(page: Page):
    page.keyboard.press("?")
    listed = set(page.locator("#help kbd").all_inner_texts())
    handled = re.search(r"^const keys = {(.*?)^};", SOURCE, re.MULTILINE | re.DOTALL)[1]
    keys = {key[1] or key[2] for key in re.finditer(r'(?:^|, )\s*(?:(\w+)|"(.)"):', handled, re.MULTILINE)}
    names = {"ArrowRight": "→", "ArrowLeft": "←", "PageDown": "PgDn", "PageUp": "PgUp", " ": "Space"}
    assert {names.get(key, key.upper() if len(key) == 1 else key) for key in keys} | {"Ctrl", "⌘", "S", "Esc"} == listed
    assert press(page, "ArrowRight e") == 1 and not page.locator("#banner").is_visible()
    page.keyboard.press("?")
    assert not page.locator("#help").is_visible()
    page.keyboard.press("?")
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()


def test_notes_show_on_the_slide(page: Page):
    notes = page.locator("section").first.locator(".notes")
    assert [press(page, "n") and notes.is_visible() for _ in range(2)] == [True, False]


def test_the_ring_adds_up_step_by_step(context: BrowserContext):
    """The picture against what the ranks of a ring hold: a rank r passes chunk r − t on in step t."""
    page = deck(context, slide=RING)
    held = [[own, 10 * own, 100 * own] for own in (1, 2, 4)]
    for step in range(5):
        for rank, row in zip(page.locator("g.rank").all(), held, strict=True):
            numbers, boxes = rank.locator("text:not(.name)"), rank.locator("rect")
            assert [int(text) for text in numbers.all_text_contents()] == row
            whole = [value == 7 * 10**chunk for chunk, value in enumerate(row)]
            for parts, colours in [(numbers, ("#ffffff", "#1b2027")), (boxes, ("#b3361b", "#ffffff"))]:
                fills = parts.evaluate_all("parts => parts.map(part => getComputedStyle(part).fill)")
                rgb = [f"rgb({int(c[1:3], 16)}, {int(c[3:5], 16)}, {int(c[5:], 16)})" for c in colours]
                assert fills == [rgb[not sum_] for sum_ in whole]
        assert page.locator(".captions > :visible").count() == 1
        assert page.locator(".captions .value:visible").inner_text() == f"{step} / 4"
        sends = [row[(rank - step) % 3] for rank, row in enumerate(held)]
        for rank, value in enumerate(sends):
            row, chunk = held[(rank + 1) % 3], (rank - step) % 3
            row[chunk] = row[chunk] + value if step < 2 else value
        at_step = press(page, "ArrowRight")
        if step < 4:
            assert at_step == RING
            assert [int(text) for text in page.locator(".arrow text").all_text_contents()] == sends
    assert at_step == RING + 1
    assert press(page, "ArrowLeft") == RING and page.locator(".captions .value:visible").inner_text() == "4 / 4"
    assert press(page, "ArrowLeft ArrowLeft ArrowLeft ArrowLeft ArrowLeft") == RING - 1


# ---- editing and exporting


def test_an_export_without_edits_is_the_file_byte_for_byte(page: Page):
    assert exported(page) == DECK.read_bytes()
    with page.expect_popup():
        page.keyboard.press("p")
    press(page, "l n End Home ArrowRight o Escape n ? Escape e Escape l e")
    page.locator("h1 span:visible").first.click()
    page.keyboard.type("x")
    page.keyboard.press("Backspace")
    assert exported(page, "Meta+s") == DECK.read_bytes()


def test_editing_belongs_to_the_text(page: Page):
    press(page, "ArrowRight e")
    assert page.locator("#banner").is_visible() and "Editing" in page.locator("#banner").inner_text()
    assert press(page, "ArrowRight Space End") == 2  # not the slide
    title = page.locator("section.on h1 [lang=en]")
    before = title.inner_text()
    title.click()
    page.keyboard.press("End")
    for key in ["ArrowLeft", "ArrowLeft"]:
        page.keyboard.press(key)
    page.keyboard.type("lope ?")
    page.keyboard.press("Enter")
    assert title.inner_text() == f"{before[:-2]}lope ?{before[-2:]}"
    assert at(page) == 2 and page.evaluate("document.body.className").split() == ["ready", "editing"]
    assert press(page, "PageDown") == 3
    page.get_by_role("button", name="Back").click()
    assert at(page) == 2
    page.keyboard.press("Escape")
    assert not page.locator("#banner").is_visible() and not page.locator("[contenteditable]").count()
    assert press(page, "e e ArrowRight") == 3


def test_every_word_can_be_changed_but_what_is_filled_and_drawn(page: Page):
    page.keyboard.press("e")
    fixed = page.evaluate("""() => {
        const words = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
        const fixed = [];
        while (words.nextNode()) {
            const parent = words.currentNode.parentElement;
            if (words.currentNode.data.trim() && !parent.isContentEditable) fixed.push(parent);
        }
        return fixed.map((e) => e.closest("pre, svg, .number, .machine") ? "" : e.outerHTML);
    }""")
    assert fixed and not any(fixed)
    assert not page.locator(
        "[contenteditable] :is(pre, svg, [data-run]), :is(pre, svg, [data-run])[contenteditable]"
    ).count()


def test_an_edit_survives_export_and_reopening(page: Page, context: BrowserContext, tmp_path: Path):
    press(page, "End e")
    for text in ["section.on h1 [lang=en]", "section.on li [lang=zh-TW] >> nth=2", "section.on .foot [lang=en]"]:
        page.locator(text).click()
        page.keyboard.press("End")
        page.keyboard.type(" <b>&amp; 再來")
    page.keyboard.press("n")
    first = tmp_path / "deck.html"
    first.write_bytes(exported(page))
    changed = [line for line in difflib.ndiff(SOURCE.splitlines(), first.read_text().splitlines()) if line[0] in "+-"]
    assert len(changed) == 6 and sum("&lt;b&gt;&amp;amp; 再來" in line for line in changed) == 3
    again = deck(context, first, COUNT)
    assert again.locator("section.on h1 [lang=en]").inner_text().endswith(" <b>&amp; 再來")
    assert at(again) == COUNT and exported(again) == first.read_bytes()
    press(again, "e")
    again.locator("section.on h1 [lang=en]").click()
    again.keyboard.press("Control+a")
    again.keyboard.type("Thank you")
    second = exported(again).decode()
    assert "Thank you" in second and second.count("再來") == first.read_text().count("再來") - 1


def test_leaving_with_unexported_edits_warns(context: BrowserContext):
    def warned(page: Page) -> bool:
        asked = []
        page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
        page.reload()
        return asked == ["beforeunload"]

    for edit, save in [(True, False), (True, True), (False, False)]:
        page = deck(context)
        press(page, "e")
        page.locator("h1 [lang=en]:visible").click()
        if edit:
            page.keyboard.type("New")
        if save:
            exported(page)
        assert warned(page) == (edit and not save)


def test_what_is_pasted_or_dropped_is_plain(page: Page, context: BrowserContext):
    rich = context.new_page()
    rich.set_content("<p>one<br>two <b>bold</b> &lt;script&gt;alert(1)&lt;/script&gt;</p>")
    rich.keyboard.press("Control+a")
    rich.keyboard.press("Control+c")
    page.bring_to_front()
    page.keyboard.press("e")
    title = page.locator("h1 [lang=en]:visible")
    title.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+v")
    assert title.inner_html() == "one two bold &lt;script&gt;alert(1)&lt;/script&gt;"
    page.locator(".lead:visible").first.evaluate("""(text) => {
        const dropped = new DragEvent("drop", { bubbles: true, cancelable: true });
        if (text.dispatchEvent(dropped)) throw new Error("the browser would insert what is dropped");
    }""")


# ---- how it looks


def test_languages_show_one_or_both(page: Page):
    seen = []
    for _ in range(4):
        texts = page.locator("section.on [lang]:visible").evaluate_all("texts => texts.map(text => text.lang)")
        seen.append((set(texts), page.evaluate("document.documentElement.lang")))
        press(page, "l")
    both = ({"en", "zh-TW"}, "en")
    assert seen == [both, ({"en"}, "en"), ({"zh-TW"}, "zh-TW"), both]


def on_every_slide(page: Page, look: str) -> list[str]:
    """What a look at each slide, and at each step of one, finds wrong: `look` is a function in JavaScript."""
    tour = """(count) => {
        const problems = [], look = LOOK;
        const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
        press("Home");
        for (let n = 0; n < count; n++) {
            const found = look(document.querySelector("section.on"));
            problems.push(...found.map((problem) => `${document.querySelector("#counter").textContent}: ${problem}`));
            press("ArrowRight");
        }
        return location.hash.endsWith(`/${document.querySelectorAll("section").length}`) ? problems : ["stopped"];
    }"""
    return page.evaluate(tour.replace("LOOK", look), COUNT + STEPS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_overflows(context: BrowserContext, language: str):
    """Each box stands within its slide, clear of the buttons; no text is wider than its box."""
    look = """(slide) => {
        const box = slide.getBoundingClientRect(), bar = document.querySelector("nav").getBoundingClientRect();
        const phone = innerWidth < 700, floor = phone ? box.bottom - bar.height : box.bottom;
        const problems = document.documentElement.scrollWidth > innerWidth ? ["the page is too wide"] : [];
        for (const e of slide.querySelectorAll(":not(.art, .art *)")) {
            if (!e.checkVisibility() || e.closest(".notes")) continue;
            const { left, right, top, bottom } = e.getBoundingClientRect();
            const out = left < box.left - 1 || right > box.right + 1 || top < box.top || bottom > floor;
            const covered = !phone && e.innerText && !e.children.length && right > bar.left && bottom > bar.top;
            const inline = e.closest("svg") || getComputedStyle(e).display === "inline";
            const cut = !inline && e.innerText && e.scrollWidth > e.clientWidth + 1;
            if (out || covered || cut) problems.push(`${e.tagName}.${e.className} ${e.textContent}`);
        }
        return problems;
    }"""
    page = deck(context, language=language)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert not on_every_slide(page, look), f"{width} × {height}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_text_is_at_least_24_pixels_high(context: BrowserContext, language: str):
    look = """() => {
        const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), small = [];
        while (words.nextNode()) {
            const e = words.currentNode.parentElement;
            if (!words.currentNode.data.trim() || !e.checkVisibility() || e.matches("script, style")) continue;
            const size = parseFloat(getComputedStyle(e).fontSize) * (e.closest("svg") ? e.getScreenCTM().a : 1);
            if (size < 23.99) small.push(`${size} px: ${words.currentNode.data.trim()}`);
        }
        return small;
    }"""
    page = deck(context, language=language)
    assert not on_every_slide(page, look)
    for view in ["n", "e", "Escape", "?"]:  # notes, editing, neither, keys
        page.keyboard.press(view)
        assert not page.evaluate(look)


def test_axe_finds_nothing(context: BrowserContext):
    """Contrast, names, landmarks, headings: each slide, and each view."""
    page, axe = deck(context), Axe()
    axe.run(page)  # leaves its script in the page

    def check(what: str) -> None:
        found = page.evaluate("axe.run({ resultTypes: ['violations'] }).then((found) => found.violations)")
        assert not found, f"{what}: {json.dumps(found, indent=1)}"

    for number in range(1, COUNT + 1):
        page.evaluate(f"location.hash = '#/{number}'")
        page.wait_for_function(f"() => document.querySelector('#counter').textContent.startsWith('{number:02}')")
        check(f"slide {number}")
    page.evaluate(f"location.hash = '#/{RING}'")
    page.wait_for_function(f"() => document.querySelector('#counter').textContent.startsWith('{RING:02}')")
    for keys in ["ArrowRight ArrowRight ArrowRight", "n", "e", "Escape n o", "o ?", "Escape Home n", "n l l End"]:
        for key in keys.split():
            page.keyboard.press(key)
        check(f"after {keys}")


def test_motion_is_left_out_for_those_who_ask(browser: Browser):
    for motion, name in [("reduce", "none"), ("no-preference", "appear")]:
        with browser.new_context(viewport=SCREEN, reduced_motion=motion) as context:
            style = deck(context).locator("section.on").evaluate("s => getComputedStyle(s).animationName")
            assert style == name


def test_without_its_script_the_page_still_shows_all_slides(browser: Browser):
    with browser.new_context(viewport=SCREEN, java_script_enabled=False) as context:
        assert deck(context).locator("h1:visible").count() == COUNT


@pytest.mark.parametrize("keys", ["o", "e n"])
def test_print_gives_one_slide_a_page(page: Page, keys: str):
    for key in keys.split():
        page.keyboard.press(key)
    pdf = page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == COUNT
    assert set(re.findall(rb"/MediaBox\s*\[([^\]]*)\]", pdf)) == {b"0 0 960 540"}  # 1280 × 720 at 96 to the inch


# ---- the handout


def test_the_handout_is_one_page_on_paper_and_fits_a_phone(context: BrowserContext):
    page = deck(context, ROOT / "assets" / "handout.html")
    pdf = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1
    assert b"0 0 594.95996 841.91998" in pdf or b"0 0 595" in pdf  # A4
    assert not Axe().run(page).response["violations"]
    for width in (400, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_handout_shows_the_programs_lines():
    code = dict(re.findall(r'<pre data-src="([^"]*)">(.*?)</pre>', HANDOUT, re.DOTALL))
    assert [text.count("\n") + 1 for text in code.values()] == [5, 3, 1]
    assert code["single.py#L64-L68"].startswith("optimizer.zero_grad()")
    assert code["average.py#L35-L37"].endswith("parameter.grad /= world_size")
    assert HANDOUT.count("<tr>") == 10


# ---- what it says


def test_code_on_slides_is_the_programs_code():
    course, excerpts = (
        build.Course(ROOT),
        dict(re.findall(r'<pre [^>]*?data-src="([^"]*)">(.*?)</pre>', SOURCE, re.DOTALL)),
    )
    starts = {
        "single.py#L64-L64": "optimizer.zero_grad()",
        "single.py#L65-L65": "output = model(x)",
        "single.py#L66-L66": "loss = criterion(output, y)",
        "single.py#L67-L67": "loss.backward()",
        "single.py#L68-L68": "optimizer.step()",
        "average.py#L34-L38": "loss.backward()\nfor parameter in",
        "ddp.py#L4-L4": "torchrun --standalone --nproc-per-node=2 ddp.py",
        "ddp.py#L54-L54": "dist.init_process_group(",
        "ddp.py#L57-L57": "sampler = DistributedSampler(",
        "ddp.py#L61-L61": "ddp_model = DistributedDataParallel(model",
        "ddp.py#L70-L70": "sampler.set_epoch(epoch)",
        "ddp.py#L78-L78": "output = ddp_model(x)",
    }
    assert excerpts.keys() == starts.keys()
    assert {source: course.excerpt(source, "deck") for source in excerpts} == excerpts
    assert all(text.startswith(starts[source]) and text[-1] in ")2" for source, text in excerpts.items())


def test_numbers_on_slides_are_those_of_the_reference_run(page: Page):
    run = json.loads((ROOT / "assets" / "bench-2-cores.json").read_text())
    rows = {row["row"]: row for row in run["rows"]} | {"machine": run["machine"]}
    numbers = dict(re.findall(r'<span data-run="bench-2-cores\.json#([^"]*)">(.*?)</span>', SOURCE))
    assert len(numbers) == SOURCE.count("data-run=") == 9
    for source, text in numbers.items():
        row, field = source.split("#")
        assert text == (str(rows[row][field]) if row == "machine" else f"{rows[row][field]:.2f}")
    widths = page.locator(".bar").evaluate_all("bars => bars.map(bar => bar.style.getPropertyValue('--times'))")
    assert widths == [text for source, text in numbers.items() if source.endswith("#ratio")]


def test_every_text_stands_in_both_languages_and_in_taiwans_words():
    sections = re.findall(r"<section\b.*?</section>", SOURCE, re.DOTALL)
    for number, section in enumerate(sections, 1):
        english, chinese = (re.findall(rf'<(\w+)[^>]* lang="{code}">(.*?)</\1>', section) for code in ("en", "zh-TW"))
        assert [tag for tag, _ in english] == [tag for tag, _ in chinese], f"slide {number}"
        prose = INNOCENT.sub(" ", " ".join(re.sub("<code>.*?</code>|<[^>]*>", " ", text) for _, text in chinese))
        assert not [c for c in prose if "\u3400" <= c <= "\u9fff" and simplified(c)]
        assert not [word for word in TAIWAN if word in prose], f"slide {number}"
        assert not re.search("[\u3400-\u9fff][,;:!?]", prose), f"slide {number}: full-width punctuation"
        assert not re.search("[\u3400-\u9fff]", " ".join(text for _, text in english)), f"slide {number}"


def test_slides_follow_the_clock_and_all_have_notes():
    minutes = [int(minute) for minute in re.findall(r'<section [^>]*data-minute="(\d+)"', SOURCE)]
    assert len(minutes) == SOURCE.count('\n<div class="notes">\n') == COUNT and minutes[0] == 0 and minutes[-1] < 90
    assert all(earlier < later for earlier, later in itertools.pairwise(minutes))


def test_links_lead_to_the_lessons():
    links = re.findall(
        r'href="([^"]*)"[^>]*><b>(\d\d)</b> <span lang="en">(.*?)</span> <span lang="zh-TW">(.*?)</span>', SOURCE
    )
    assert [number for _, number, *_ in links] == [f"0{n}" for n in range(8)]
    assert '<a href="../notebooks/workshop.ipynb"' in SOURCE and (ROOT / "notebooks" / "workshop.ipynb").exists()
    for link, number, english, chinese in links:
        assert re.fullmatch(rf"\.\./notebooks/{number}_\w+\.ipynb", link)
        for source in (ROOT / "notebooks" / "src").glob(f"{number}_*.md"):
            assert source.stem == Path(link).stem
            assert f"# {number} · {english} · {chinese}\n" in source.read_text()


def test_one_file_written_by_hand():
    """Slides, then the style, then at most 250 lines of script; nothing that a browser would have to fetch."""
    order = [SOURCE.index(mark) for mark in ("<main>", "</main>", "<style>", "</style>", "<script>", "</script>")]
    assert order == sorted(order) and SOURCE.endswith("</script></body></html>\n")
    assert SOURCE.count("<script") == SOURCE.count("<style") == 1
    script = SOURCE[order[4] : order[5]]
    assert script.count("\n") <= 250 and max(map(len, script.splitlines())) <= 130
    assert not re.search(r"[^-]src(set)?=|url\(|@import|https?://|fetch\(|XMLHttp|WebSocket|import\(", SOURCE)
