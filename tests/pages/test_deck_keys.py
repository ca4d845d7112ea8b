"""The deck in a real browser: every key, button and finger, and what they show."""

import re
from itertools import pairwise

import pytest
from axe_playwright_python.sync_playwright import Axe
from deck import COUNT, RING, SOURCE, STEPS, at, open_deck, press
from playwright.sync_api import Browser, BrowserContext, Page


def test_keys_move_the_slides(page: Page):
    assert at(page) == 1
    assert press(page, "ArrowLeft") == press(page, "PageUp") == press(page, "Home") == 1
    assert [press(page, key) for key in ("ArrowRight", "Space", "PageDown")] == [2, 3, 4]
    assert [press(page, key) for key in ("ArrowLeft", "PageUp", "End")] == [3, 2, COUNT]
    assert [press(page, key) for key in ("ArrowUp", "Shift+Space")] == [COUNT - 1, COUNT - 2]
    assert [press(page, key) for key in ("ArrowDown", "Space")] == [COUNT - 1, COUNT]
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

    click("Forward")
    click("Forward")
    click("Back")
    assert at(page) == 2
    # The mouse leaves no button in focus, which Space would press again.
    assert press(page, "Space") == 3
    click("Language")
    assert page.evaluate("document.body.dataset.language") == "en"
    click("Overview")
    assert page.locator("section:visible").count() == COUNT
    click("Overview")
    click("Edit")
    assert page.locator("#banner").is_visible()
    click("Edit")
    click("Keys")
    assert page.get_by_role("dialog").is_visible()
    assert not page.locator("#banner").is_visible()


def test_a_link_leads_to_a_slide(context: BrowserContext):
    page = open_deck(context, slide=7)
    assert at(page) == 7
    page.reload()
    assert at(page) == 7
    shown = "given => document.querySelectorAll('section')[given - 1].checkVisibility()"
    cases = {"#/12": 12, "#/999": COUNT, "#/0": 1, "#/3": 3, "#nowhere": 3}
    for asked, given in cases.items():
        page.evaluate("asked => { location.hash = asked; }", asked)
        page.wait_for_function(shown, arg=given)
        if asked != "#nowhere":
            assert at(page) == given


def test_a_finger_turns_the_page(browser: Browser):
    context = browser.new_context(viewport={"width": 400, "height": 800}, has_touch=True)
    page = open_deck(context, slide=3)
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
    for number in range(COUNT):
        box = shown.nth(number).bounding_box()
        assert abs(box["width"] / box["height"] - 16 / 9) < 0.01
        assert box["width"] < 320
    shown.nth(5).click()
    assert at(page) == 6
    page.keyboard.press("o")
    for key in ["End", "ArrowLeft"]:
        page.keyboard.press(key)
    inside = "s => s.getBoundingClientRect().bottom <= innerHeight"
    assert page.locator("section.on").evaluate(inside)
    page.keyboard.press("Enter")
    assert at(page) == COUNT - 1
    assert press(page, "o Escape") == COUNT - 1


def test_the_presenter_sees_what_comes_next_and_the_clock(context: BrowserContext):
    context.clock.install()
    page = open_deck(context)
    press(page, "ArrowRight")
    with page.expect_popup() as popup:
        page.keyboard.press("p")
    view = popup.value

    def titles() -> list[str]:
        return [text.split("\n")[0] for text in view.locator("section h1").all_inner_texts()]

    def clock() -> tuple[int, str, str]:
        time, plan, verdict = view.locator(".clock > :not(button)").all_inner_texts()
        minutes, seconds = time.split(":")
        tens = (60 * int(minutes) + int(seconds)) // 10  # of seconds
        return tens, plan, verdict

    names = [text.split("\n")[0] for text in page.locator("h1").all_text_contents()]
    for title, name in zip(titles(), names[1:3], strict=True):
        assert title in name
    notes = page.locator("section").nth(1).locator(".notes p").all_text_contents()
    assert view.locator(".notes:visible p").all_text_contents() == notes
    assert clock()[:2] == (0, f"02 / {COUNT} · 1–3 min")
    assert "1 min ahead" in clock()[2]
    page.clock.run_for(151_000)
    assert clock()[0] == 15
    assert "on time" in clock()[2]
    page.clock.run_for(300_000)
    assert clock()[0] == 45
    assert "5 min behind" in clock()[2]
    view.keyboard.press("ArrowRight")  # its keys move the class's slides, too
    assert at(page) == 3
    assert view.locator(".clock").inner_text().count(f"03 / {COUNT}") == 1
    view.get_by_role("button").click()
    assert clock()[0] == 0
    press(page, "End")
    assert view.locator("section").count() == 2
    assert clock()[1].endswith("86–90 min")
    found = Axe().run(view)
    assert not found.violations_count, found.generate_report()


def open_presenter(page: Page) -> Page:
    with page.expect_popup() as popup:
        page.keyboard.press("p")
    return popup.value


def test_a_reload_keeps_language_step_and_clock(context: BrowserContext):
    context.clock.install()
    page = open_deck(context, slide=RING, language="zh")
    page.keyboard.press("ArrowRight")
    view = open_presenter(page)
    page.clock.run_for(600_000)
    with view.expect_event("close"):
        page.reload()
    assert at(page) == RING
    assert page.evaluate("document.body.dataset.language") == "zh"
    assert page.evaluate("document.documentElement.lang") == "zh-TW"
    assert page.locator(".captions .value:visible").inner_text() == "1 / 4"
    assert "presenter" in page.locator("#toast").inner_text()
    again = open_presenter(page)
    assert again.locator(".clock b").inner_text().startswith("10:")
    page.keyboard.press("ArrowRight")
    caption = again.locator("section").first.locator(".captions .value:visible")
    assert caption.inner_text() == "2 / 4"


def test_the_presenter_sees_one_caption_of_the_ring_and_the_next_step(context: BrowserContext):
    page = open_deck(context, slide=RING)
    view = open_presenter(page)
    now = view.locator("section").first.locator(".captions > :visible")
    coming = view.locator("section").nth(1)
    following = coming.locator(".captions > :visible")
    for step in range(5):
        assert now.count() == 1
        assert now.locator(".value").inner_text() == f"{step} / 4"
        if step < 4:
            assert following.locator(".value").inner_text() == f"{step + 1} / 4"
        else:
            assert coming.locator("h1").inner_text().startswith("Three lines")
        page.keyboard.press("ArrowRight")
    press(page, "Home")
    for _ in range(RING - 2):
        page.keyboard.press("ArrowRight")
    assert following.count() == 1  # the ring is what comes next
    assert following.locator(".value").inner_text() == "0 / 4"


def test_help_and_editing_from_the_presenters_window(context: BrowserContext):
    page = open_deck(context, slide=3)
    view = open_presenter(page)
    view.keyboard.press("?")
    assert view.locator("#help").is_visible()
    assert not page.locator("#help").is_visible()
    sizes = "parts => parts.map(part => parseFloat(getComputedStyle(part).fontSize))"
    assert min(view.locator("#help :is(th, td, kbd)").evaluate_all(sizes)) >= 20
    view.keyboard.press("Escape")
    assert not view.locator("#help").is_visible()
    view.keyboard.press("?")
    view.locator("#help").click()
    assert not view.locator("#help").is_visible()
    view.keyboard.press("e")
    assert page.locator("#banner").is_visible()
    assert not view.locator("[contenteditable]").count()
    view.keyboard.press("Escape")
    assert not page.locator("#banner").is_visible()
    assert at(page) == 3


def colour(page: Page) -> str:
    """Of the middle of the screen."""
    return page.evaluate("""() => {
        const top = document.elementFromPoint(innerWidth / 2, innerHeight / 2);
        return getComputedStyle(top).backgroundColor;
    }""")


def test_a_black_screen(context: BrowserContext):
    page = open_deck(context, slide=4)
    view = open_presenter(page)
    black = "rgb(0, 0, 0)"
    assert colour(page) != black
    for key, back in [("b", "b"), (".", "."), ("b", "ArrowRight"), (".", "Escape")]:
        page.keyboard.press(key)
        assert colour(page) == black
        assert press(page, back) == 4
        assert colour(page) != black
    view.keyboard.press("b")
    assert colour(page) == black
    dimmed = "section => getComputedStyle(section).opacity"
    assert view.locator("section").first.evaluate(dimmed) == "0.25"
    page.mouse.click(300, 300)
    assert colour(page) != black
    assert press(page, "ArrowRight") == 5


def test_a_number_and_enter_lead_to_a_slide(page: Page):
    assert press(page, "1 2 Enter") == 12
    assert press(page, "Enter") == 12
    assert press(page, "9 9 Enter") == COUNT
    assert press(page, "0 Enter") == 1
    page.keyboard.press("o")
    for key in "7":
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert at(page) == 7


def test_a_bar_shows_how_far_the_class_is(page: Page):
    width = "bar => bar.getBoundingClientRect().width"

    def share() -> float:
        return page.locator("#progress").evaluate(width) / 1280

    seen = [share()]
    for _ in range(COUNT + STEPS - 1):
        page.keyboard.press("ArrowRight")
        seen.append(share())
    assert seen[0] == 0
    assert seen[-1] == 1
    assert all(earlier < later for earlier, later in pairwise(seen))


def test_a_laser_dot_follows_the_pointer(context: BrowserContext):
    page = open_deck(context, slide=3)
    dot = page.locator("#laser")

    def middle() -> tuple[float, float]:
        box = dot.bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    page.mouse.move(300, 200)
    assert not dot.is_visible()
    page.keyboard.press("d")
    assert middle() == pytest.approx((300, 200), abs=1)
    page.mouse.move(640, 360)
    assert middle() == pytest.approx((640, 360), abs=1)
    page.keyboard.press("d")
    assert not dot.is_visible()
    page.keyboard.down("d")
    page.wait_for_timeout(600)
    assert dot.is_visible()
    page.keyboard.up("d")
    assert not dot.is_visible()

    view = open_presenter(page)  # in its window one points at the copy of the slide
    view.keyboard.press("d")
    box = view.locator("section").first.bounding_box()
    view.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2)
    assert middle() == pytest.approx((320, 360), abs=2)
    coming = view.locator("section").nth(1).bounding_box()
    view.mouse.move(coming["x"] + 50, coming["y"] + 50)
    assert middle() == pytest.approx((320, 360), abs=2)


def test_the_buttons_cover_no_slide_of_the_overview(page: Page):
    bar = "document.querySelector('nav').getBoundingClientRect().bottom"
    for key in ["o", "ArrowDown", "ArrowDown", "ArrowUp"]:
        page.keyboard.press(key)
    chosen = page.locator("section.on")
    assert chosen.evaluate("s => [...s.parentElement.children].indexOf(s)") == 4
    for key in ["End", "Home", "End", "ArrowUp", "ArrowUp", "ArrowUp"]:
        page.keyboard.press(key)
        assert chosen.evaluate(f"s => s.getBoundingClientRect().top >= {bar}")
        assert chosen.evaluate("s => s.getBoundingClientRect().bottom <= innerHeight")


def test_full_screen(page: Page):
    page.keyboard.press("f")
    page.wait_for_function("() => document.fullscreenElement === document.documentElement")
    page.keyboard.press("f")
    page.wait_for_function("() => document.fullscreenElement === null")


def test_help_lists_every_key(page: Page):
    page.keyboard.press("?")
    listed = set(page.locator("#help kbd").all_inner_texts())
    handled = re.search(r"^const keys = {(.*?)^};", SOURCE, re.MULTILINE | re.DOTALL)[1]
    arrows = {"ArrowRight": "→", "ArrowLeft": "←", "ArrowDown": "↓", "ArrowUp": "↑"}
    names = arrows | {"PageDown": "PgDn", "PageUp": "PgUp", " ": "Space"}
    shown = {"Ctrl", "⌘", "S", "Esc", "Shift", "Enter", "1", "2"}
    for word, sign in re.findall(r'(?:^|, )\s*(?:(\w+)|"(.)"):', handled, re.MULTILINE):
        key = word or sign
        shown.add(names.get(key, key.upper() if len(key) == 1 else key))
    assert shown == listed
    assert press(page, "ArrowRight e") == 1
    assert not page.locator("#banner").is_visible()
    page.keyboard.press("?")
    assert not page.locator("#help").is_visible()
    page.keyboard.press("?")
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()


def test_help_closes_without_a_keyboard(browser: Browser):
    phone = {"width": 400, "height": 800}
    with browser.new_context(viewport=phone, has_touch=True) as context:
        page = open_deck(context, slide=3)
        touch = context.new_cdp_session(page)
        box = page.locator("#help")
        opener = page.get_by_role("button", name="Keys")
        opener.tap()
        assert box.is_visible()
        points = [[{"x": 300, "y": 300}], [{"x": 100, "y": 300}], []]
        for kind, at_points in zip(["touchStart", "touchMove", "touchEnd"], points, strict=True):
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at_points})
        assert at(page) == 3  # no slide moves behind it
        page.get_by_role("button", name="Close").tap()
        assert not box.is_visible()
        opener.tap()
        assert box.is_visible()
        page.touchscreen.tap(200, 795)  # outside of it
        assert not box.is_visible()
        assert at(page) == 3


def test_help_is_legible_in_the_overview(page: Page):
    for key in ["o", "?"]:
        page.keyboard.press(key)
    sizes = "parts => parts.map(part => parseFloat(getComputedStyle(part).fontSize))"
    assert min(page.locator("#help :is(th, td, kbd)").evaluate_all(sizes)) >= 20


def test_a_key_that_composes_a_word_is_left_alone(page: Page):
    page.keyboard.press("e")
    page.locator("h1 [lang=zh-TW]:visible").click()
    send = """([key, more]) => document.activeElement.dispatchEvent(new KeyboardEvent(
        "keydown", { key, bubbles: true, cancelable: true, ...more }))"""
    for more in [{"isComposing": True}, {"keyCode": 229}]:  # Safari says only the second
        for key in ("Escape", "Enter", "PageDown", "s"):
            assert page.evaluate(send, [key, more]), "the input method does not get it"
    assert page.locator("#banner").is_visible()
    assert at(page) == 1
    assert not page.evaluate(send, ["Enter", {}])  # a plain Enter would break the line


def test_notes_show_on_the_slide(page: Page):
    notes = page.locator("section").first.locator(".notes")
    assert [press(page, "n") and notes.is_visible() for _ in range(2)] == [True, False]


WHITE = "rgb(255, 255, 255)"
BLACK = "rgb(27, 32, 39)"
RED = "rgb(179, 54, 27)"


def test_the_ring_adds_up_step_by_step(context: BrowserContext):
    """The picture against what the ranks of a ring hold: in step t rank r passes chunk r − t on."""
    page = open_deck(context, slide=RING)
    held = [[own, 10 * own, 100 * own] for own in (1, 2, 4)]
    for step in range(5):
        for rank, row in zip(page.locator("g.rank").all(), held, strict=True):
            numbers = rank.locator("text:not(.name)")
            boxes = rank.locator("rect")
            assert [int(text) for text in numbers.all_text_contents()] == row
            whole = [value == 7 * 10**chunk for chunk, value in enumerate(row)]
            for parts, colours in [(numbers, (WHITE, BLACK)), (boxes, (RED, WHITE))]:
                fills = parts.evaluate_all("parts => parts.map(p => getComputedStyle(p).fill)")
                assert fills == [colours[not is_whole] for is_whole in whole]
        assert page.locator(".captions > :visible").count() == 1
        assert page.locator(".captions .value:visible").inner_text() == f"{step} / 4"
        sends = [row[(rank - step) % 3] for rank, row in enumerate(held)]
        for rank, value in enumerate(sends):
            row = held[(rank + 1) % 3]
            chunk = (rank - step) % 3
            row[chunk] = row[chunk] + value if step < 2 else value
        at_step = press(page, "ArrowRight")
        if step < 4:
            assert at_step == RING
            arrows = page.locator(".arrow text").all_text_contents()
            assert [int(text) for text in arrows] == sends
    assert at_step == RING + 1
    assert press(page, "ArrowLeft") == RING
    assert page.locator(".captions .value:visible").inner_text() == "4 / 4"
    assert press(page, "ArrowLeft ArrowLeft ArrowLeft ArrowLeft ArrowLeft") == RING - 1
