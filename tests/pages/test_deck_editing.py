"""The deck in a real browser: what can be edited, and what is exported then."""

import difflib
from pathlib import Path

from deck import COUNT, DECK, LANGUAGES, SOURCE, STEPS, at, exported, open_deck, press, script
from playwright.sync_api import Browser, BrowserContext, Dialog, Page


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
    assert page.locator("#banner").is_visible()
    assert "Editing" in page.locator("#banner").inner_text()
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
    assert at(page) == 2
    assert page.evaluate("document.body.className").split() == ["ready", "editing"]
    assert press(page, "PageDown") == 3
    page.get_by_role("button", name="Back").click()
    assert at(page) == 2
    page.keyboard.press("Escape")
    assert not page.locator("#banner").is_visible()
    assert not page.locator("[contenteditable]").count()
    assert press(page, "e e ArrowRight") == 3


def test_every_word_can_be_changed_but_what_is_filled_and_drawn(page: Page):
    page.keyboard.press("e")
    fixed = page.evaluate(script("fixed_text"))
    assert fixed and not any(fixed)
    filled = ":is(pre, svg, [data-run], [data-t4])"
    assert not page.locator(f"[contenteditable] {filled}, {filled}[contenteditable]").count()


def test_an_edit_survives_export_and_reopening(page: Page, context: BrowserContext, tmp_path: Path):
    press(page, "End e")
    for text in ["h1 [lang=en]", ".cards p[lang=zh-TW] >> nth=2", ".part [lang=en]"]:
        page.locator(f"section.on {text}").click()
        page.keyboard.press("End")
        page.keyboard.type(" <b>&amp; 再來")
    page.keyboard.press("n")
    first = tmp_path / "deck.html"
    first.write_bytes(exported(page))
    lines = difflib.ndiff(SOURCE.splitlines(), first.read_text().splitlines())
    changed = [line for line in lines if line[0] in "+-"]
    assert len(changed) == 6
    assert sum("&lt;b&gt;&amp;amp; 再來" in line for line in changed) == 3
    again = open_deck(context, first, COUNT)
    assert again.locator("section.on h1 [lang=en]").inner_text().endswith(" <b>&amp; 再來")
    assert at(again) == COUNT
    assert exported(again) == first.read_bytes()
    press(again, "e")
    again.locator("section.on h1 [lang=en]").click()
    again.keyboard.press("Control+a")
    again.keyboard.type("Thank you")
    second = exported(again).decode()
    assert "Thank you" in second
    assert second.count("再來") == first.read_text().count("再來") - 1


def test_leaving_with_unexported_edits_warns(context: BrowserContext):
    def warned(page: Page) -> bool:
        asked = []

        def accept(dialog: Dialog) -> None:
            asked.append(dialog.type)
            dialog.accept()

        page.on("dialog", accept)
        page.reload()
        return asked == ["beforeunload"]

    for edit, save in [(True, False), (True, True), (False, False)]:
        page = open_deck(context)
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
    drop = """(text) => {
        const dropped = new DragEvent("drop", { bubbles: true, cancelable: true });
        return text.dispatchEvent(dropped);
    }"""
    inserts = page.locator(".lead:visible").first.evaluate(drop)
    assert not inserts, "the browser would insert what is dropped"


def test_too_much_text_is_said_while_one_edits(context: BrowserContext):
    page = open_deck(context, slide=5)
    press(page, "e")
    warning = page.locator("#banner .much:visible")
    assert not warning.count()
    text = page.locator("section.on .rows [lang=en]").last
    text.click()
    page.keyboard.press("End")
    page.keyboard.type(" word" * 80)
    assert warning.count() == 2
    edge = page.locator("section.on").evaluate("s => getComputedStyle(s).outlineStyle")
    assert edge == "solid"
    page.keyboard.press("Control+End")
    assert page.locator("section.on").evaluate("s => s.scrollTop") == 0
    press(page, "PageDown")
    assert not warning.count()
    press(page, "PageUp")
    assert warning.count() == 2
    page.keyboard.press("Escape")
    assert "Too much text on slide 5" in page.locator("#toast").inner_text()
    press(page, "e")
    text.click()
    page.keyboard.press("Control+a")
    page.keyboard.type("Short")
    assert not warning.count()


def test_no_slide_is_too_full_as_it_is(context: BrowserContext):
    for language in LANGUAGES:
        page = open_deck(context, language=language)
        page.keyboard.press("e")
        for _ in range(COUNT + STEPS - 1):
            assert not page.locator("#banner .much:visible").count(), (language, at(page))
            page.keyboard.press("PageDown")


def test_fingers_can_export_and_end_editing(browser: Browser):
    tablet = {"width": 1024, "height": 768}
    with browser.new_context(viewport=tablet, has_touch=True) as context:
        page = open_deck(context)
        page.get_by_role("button", name="Edit").tap()
        title = page.locator("h1 [lang=en]:visible")
        title.tap()
        page.keyboard.type("New ")
        export = page.locator("#export")
        done = page.locator("#done")
        for button in (export, done):
            assert button.bounding_box()["height"] >= 44
        with page.expect_download() as download:
            export.tap()
        assert "New " in Path(download.value.path()).read_text()
        done.tap()
        assert not page.locator("#banner").is_visible()
        assert not page.locator("[contenteditable]").count()
