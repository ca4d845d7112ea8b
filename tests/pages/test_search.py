"""What the site's search answers: words of a beginner, error messages, and what has no page."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

HERE = Path(__file__).parent
GIVEN = tomllib.loads((HERE / "searches.toml").read_text())
WANTED = 0.95  # of the first hits, and of what has no page
# In people's own words fewer are found: of those that the ranking was tried on, and of fresh ones.
TRIED = {"words": 0.78, "none": 0.91}
FRESH = {"words": 0.75, "none": 0.95}
FIRST = """queries => queries.map(query => {
    const { hits } = window.course.finder.find(query);
    const row = window.course.finder.rows[hits[0]];
    return row ? `${row.at.split('.html')[0].split('/').pop()}#${row.title}` : '';
})"""
TEXTS = (
    "() => window.course.finder.rows.flatMap(row => (row.texts || []).map(text => [text, row.at]))"
)
# A message as people have it: at the end of a traceback, of another rank, with other numbers.
TRACEBACK = """Traceback (most recent call last):
  File "/kaggle/working/train.py", line 27, in <module>
    main()
  File "/kaggle/working/train.py", line 19, in main
    model = DDP(model.to(device))
RuntimeError: {}, and 17 more words that belong to this run alone"""
STEPS = ["which rank failed first", "which rank is missing", "the rank and the world size"]
PORT = "address-already-in-use"
RUBBISH = {
    "empty": "",
    "spaces": "  \n\n ",
    "binary": "\x00\x01\ufffd" * 400,
    "brackets": "((((" * 500,
    "backslash": "\\",
    "html": "<img src=x onerror=alert(1)>" * 30,
}


@pytest.fixture(scope="module")
def search_page(browser: Browser, site: Path) -> Iterator[Page]:
    page = browser.new_page()
    page.goto(f"{site.as_uri()}/search.html?lang=en")
    page.locator("[aria-busy=true]").wait_for(state="detached")
    yield page
    page.close()


def share(wrong: list, of: list) -> float:
    return 1 - len(wrong) / len(of)


def missed(search_page: Page, asked: dict[str, str | list[str]]) -> list[str]:
    """The queries whose first hit is another one than wanted, with both."""
    wrong = []
    for (query, wanted), first in zip(
        asked.items(), search_page.evaluate(FIRST, list(asked)), strict=True
    ):
        fits = [wanted] if isinstance(wanted, str) else wanted
        if not first.startswith(tuple(fits)):
            wrong.append(f"{query}: {first or 'nothing'}, not {' or '.join(fits)}")
    return wrong


@pytest.mark.parametrize(
    ("given", "least"),
    [(GIVEN, WANTED), (GIVEN["tried"], TRIED["words"]), (GIVEN["fresh"], FRESH["words"])],
    ids=["own", "tried", "fresh"],
)
def test_the_first_hit_is_what_was_looked_for(search_page: Page, given: dict, least: float) -> None:
    wrong = missed(search_page, given["words"])
    assert share(wrong, list(given["words"])) >= least, wrong


@pytest.mark.parametrize(
    ("given", "least"),
    [(GIVEN, WANTED), (GIVEN["tried"], TRIED["none"]), (GIVEN["fresh"], FRESH["none"])],
    ids=["own", "tried", "fresh"],
)
def test_what_has_no_page_has_no_hit(search_page: Page, given: dict, least: float) -> None:
    texts = given["none"]["texts"]
    hits = search_page.evaluate(FIRST, texts)
    wrong = [pair for pair in zip(texts, hits, strict=True) if pair[1]]
    assert share(wrong, texts) >= least, wrong


def test_each_error_is_found_by_its_text_and_in_a_traceback_of_another_run(
    search_page: Page,
) -> None:
    texts = search_page.evaluate(TEXTS)
    assert len(texts) > 90
    asked = []
    for text, at in texts:
        other = re.sub(r"\d+", lambda number: str(int(number[0]) % 7 + 1), text)
        page = at.partition(".html")[0].rpartition("/")[2]
        ways = (text, other, f"[rank3]: RuntimeError: {text}", TRACEBACK.format(text))
        asked += [(query, page) for query in ways]
    hits = search_page.evaluate(FIRST, [query for query, _ in asked])
    wrong = [
        (query[-80:], first)
        for (query, page), first in zip(asked, hits, strict=True)
        if not first.startswith(f"{page}#")
    ]
    assert not wrong


def test_a_message_without_a_page_gets_one_sentence_and_three_steps(
    browser: Browser, search_page: Page
) -> None:
    field = search_page.locator("#course-query")
    field.fill("No backend type is known for this frobnicated quux device")
    unknown = search_page.locator("#course-unknown")
    assert unknown.inner_text().startswith("There is no page for this message.")
    links = unknown.locator("a:visible")
    assert links.all_inner_texts() == STEPS
    for link in links.all():
        address, _, place = link.get_attribute("href").partition("#")
        other = browser.new_page()
        other.goto(search_page.url.rpartition("/")[0] + f"/{address}")
        assert other.locator(f"[id='{place}']").count() == 1
        other.close()
    assert not search_page.locator("#course-results > li").count()
    field.fill("address already in use")
    assert not unknown.is_visible()


@pytest.mark.parametrize("text", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_only_text(search_page: Page, text: str) -> None:
    said = []
    search_page.on("dialog", lambda dialog: said.append(dialog.message) or dialog.dismiss())
    search_page.locator("#course-query").fill(text)
    assert not search_page.locator("#course-results img").count()
    assert not search_page.locator("#course-results > li").count()
    assert not said


def test_the_end_of_a_megabyte_is_read(search_page: Page) -> None:
    lines = ["torch rank 7 /tmp/file.py line 12 [W]"] * 27_000
    lines.append("RuntimeError: Address already in use")
    assert search_page.evaluate(FIRST, ["\n".join(lines)]) == [f"{PORT}#address already in use"]
