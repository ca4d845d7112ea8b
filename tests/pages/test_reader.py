"""The box for the output of a failed launch: the rank that failed first, its error, its page."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

HERE = Path(__file__).parent
GIVEN = tomllib.loads((HERE / "outputs.toml").read_text())
ERRORS = "assets/error-texts.html"
OTHERS = ("torchrun", "silent", "same", "own", "waited", "closed", "ended")
# What the page shows in English, and how long it took to read the text.
ANSWER = """async text => {
    const field = document.getElementById('launch-output');
    field.value = text;
    const begin = performance.now();
    field.dispatchEvent(new Event('input'));
    const milliseconds = performance.now() - begin;
    await Reader.found();
    await new Promise(done => setTimeout(done));
    const parts = kind => [...document.querySelectorAll(`#launch-answer [data-${kind}]`)]
        .filter(part => part.checkVisibility());
    const numbers = part => (part.querySelector('b').textContent.match(/\\d+/g) || []).map(Number);
    const [how] = parts('how');
    const [first] = parts('first');
    const page = parts('page').find(part => part.dataset.page === 'there');
    return {
        milliseconds,
        how: how ? how.dataset.how : '',
        rank: first ? numbers(how)[0] : null,
        line: document.getElementById('launch-line').innerText,
        page: page ? page.querySelector('a').href.split('/').pop().split('.html')[0] : '',
        others: Object.fromEntries(
            parts('others').map(part => [part.dataset.others, numbers(part)])
        ),
    };
}"""
RAISES = (HERE / "outputs" / "raises-three.txt").read_text()
MEGABYTE = 1_000_000
LARGE = {
    "log": "rank 0: step 12, loss 3.4, 12 pictures a second\n",
    "one line": "a.",
    "errors of one rank": "[rank1]: RuntimeError: again\n",
    "tracebacks": "Traceback (most recent call last):\n",
    "reports": "[0]:\n  rank      : 1\n",
    "empty lines": "\n",
}
RUBBISH = {
    "binary": "\x00\x01\ufffd" * 400,
    "brackets": "((((" * 500,
    "rank": "[rank4000000000]: ValueError: no",
    "html": "<img src=x onerror=alert(1)><script>alert(2)</script>" * 30,
}


@pytest.fixture(scope="module")
def errors_page(browser: Browser, site: Path) -> Iterator[Page]:
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{site.as_uri()}/{ERRORS}?lang=en")
    yield page
    page.close()
    assert not errors


def wanted(given: dict) -> dict:
    """What the page has to show, of which `line` is a piece."""
    others = {name: given[name] for name in OTHERS if name in given}
    if "torchrun" in others:
        others["torchrun"] = [others["torchrun"]]
    page = given.get("page", "")
    return {"how": given["how"], "rank": given.get("rank"), "page": page, "others": others}


def check(page: Page, text: str, given: dict) -> None:
    shown = page.evaluate(ANSWER, text)
    del shown["milliseconds"]
    line = shown.pop("line")
    assert shown == wanted(given)
    assert given.get("line", "") in line
    assert given.get("signal", "") in line


def test_no_output_has_gone() -> None:
    assert {output["file"] for output in GIVEN["output"]} == {
        path.name for path in (HERE / "outputs").iterdir()
    }
    assert len(GIVEN["output"]) >= 36
    assert len(GIVEN["quoted"]) >= 12


@pytest.mark.parametrize("given", GIVEN["output"], ids=lambda given: given["file"])
def test_an_output_of_a_launch_is_understood(errors_page: Page, given: dict) -> None:
    check(errors_page, (HERE / "outputs" / given["file"]).read_text(), given)


@pytest.mark.parametrize("given", GIVEN["quoted"], ids=lambda given: given["thread"][19:])
def test_lines_that_others_quoted_are_understood(errors_page: Page, given: dict) -> None:
    check(errors_page, given["text"], given)


def answer_to(name: str) -> dict:
    return next(output for output in GIVEN["output"] if output["file"] == f"{name}.txt")


def output(name: str) -> str:
    return (HERE / "outputs" / f"{name}.txt").read_text()


def test_a_copy_from_a_terminal_or_a_mail_is_the_same_output(errors_page: Page) -> None:
    quoted = "".join(f"> {line}\r\n" for line in RAISES.splitlines())
    coloured = RAISES.replace("RuntimeError", "\x1b[31mRuntimeError\x1b[0m")
    check(errors_page, quoted, answer_to("raises-three"))
    check(errors_page, coloured, answer_to("raises-three"))


def test_an_older_torch_does_not_write_the_rank_before_its_lines(errors_page: Page) -> None:
    """Then torchrun may do so (--tee); else the error has no rank, and torchrun may be wrong."""
    teed = re.sub(r"\[rank\d\]: ?", "", output("raises-bare-tee"))
    check(errors_page, teed, answer_to("raises-bare-tee"))
    shown = errors_page.evaluate(ANSWER, re.sub(r"\[rank\d\]: ?", "", output("raises-bare")))
    assert shown["how"] == "unnamed"
    assert "ValueError: label 12" in shown["line"]


def test_of_two_machines_the_earlier_report_counts(errors_page: Page) -> None:
    second = output("stumble").replace("rank 1 stumbles", "rank 3 stumbles")
    second = second.replace("[rank1]", "[rank3]").replace("rank      : 1", "rank      : 3")
    second = re.sub(r"_\d\d:\d\d:\d\d", "_20:35:57", second)  # the first one: 20:35:58
    for text in (RAISES + second, second + RAISES):
        assert errors_page.evaluate(ANSWER, text)["rank"] == 3


def test_a_rank_without_an_error_is_looked_for_where_the_lesson_does(errors_page: Page) -> None:
    errors_page.evaluate(ANSWER, output("uneven"))
    link = errors_page.locator("[data-others=silent] a:visible")
    assert link.get_attribute("href").endswith("12_break_it.html?lang=en#who-is-missing")


def test_time_stamps_count_more_than_the_order_of_lines(errors_page: Page) -> None:
    given = GIVEN["quoted"][0]
    check(errors_page, "\n".join(reversed(given["text"].splitlines())), given)


def test_slurm_names_a_task(errors_page: Page) -> None:
    lines = ["srun: error: gpu02: task 3: Killed", "srun: error: gpu01: tasks 0-2: Terminated"]
    shown = errors_page.evaluate(ANSWER, "\n".join(lines))
    assert shown["rank"] == 3
    assert shown["others"] == {"ended": [0, 1, 2]}


def test_a_piece_of_a_message_has_its_page(errors_page: Page) -> None:
    shown = errors_page.evaluate(ANSWER, "Duplicate GPU detected : rank 2 and rank 10")
    assert shown["page"] == "duplicate-gpu-detected"
    assert shown["how"] == "unnamed"


@pytest.mark.parametrize("text", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_gets_one_sentence_and_is_only_text(errors_page: Page, text: str) -> None:
    said = []
    errors_page.on("dialog", lambda dialog: said.append(dialog.message) or dialog.dismiss())
    shown = errors_page.evaluate(ANSWER, text)
    assert shown["how"] == "nothing"
    raised = errors_page.evaluate(ANSWER, f"[rank1]: ValueError: {text}")
    assert raised["rank"] == 1
    assert not errors_page.locator("#launch-answer :is(img, script)").count()
    assert not said


def test_nothing_is_said_of_nothing(errors_page: Page) -> None:
    errors_page.evaluate(ANSWER, RAISES)
    for empty in ("", " \n\n "):
        assert errors_page.evaluate(ANSWER, empty)["how"] == ""


@pytest.mark.parametrize("piece", LARGE.values(), ids=LARGE)
def test_a_megabyte_is_read_at_once(errors_page: Page, piece: str) -> None:
    text = piece * (MEGABYTE // len(piece)) + "\n" + RAISES
    shown = errors_page.evaluate(ANSWER, text)
    print(f"{shown['milliseconds']:.0f} ms")
    assert shown["rank"] == 1
    assert shown["milliseconds"] < 2000  # a tenth of it on an idle machine


def test_it_answers_in_the_language_that_is_read_and_asks_no_other_host(
    reading: BrowserContext, address: str
) -> None:
    page = reading.new_page()
    page.goto(f"{address}/{ERRORS}?lang=zh")
    page.locator("#launch-output").fill(RAISES)
    answer = page.locator("#launch-answer")
    expect(answer).to_contain_text("最先失敗的是 rank 1")
    assert "failed first" not in answer.inner_text()
    expect(page.locator("[data-page=none]")).to_be_visible(timeout=60_000)  # the index is large
    page.locator("[data-choose=en]").click()
    expect(answer).to_contain_text("Rank 0: lost the connection, a consequence.")
    # It has no page: its words are looked for in the lessons.
    page.locator("[data-page=none] a:visible").click()
    expect(page.locator("#course-query")).to_have_value(
        "ValueError: label 12 in batch 2 is not one of 0 to 9"
    )
