"""The site's front page and what it leads to; error pages; what is told to search engines."""

import json
import re
import struct
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from bs4 import BeautifulSoup, SoupStrainer, Tag
from playwright.sync_api import BrowserContext

from course.facts import minutes, routes
from course.facts import parts as build_parts
from course.languages import CJK
from course.site import __main__ as site_build
from course.site import front as site_front
from course.site.messages import Faults, Places
from course.sources import Course

ROOT = Path(__file__).resolve().parents[2]
COURSE = Course(ROOT)
ENGLISH = re.compile(r"[A-Za-z]{2,}")
OWN = re.compile("head|article")

# What a class and a learner look for, besides the lessons.
THINGS = [
    "notebooks/workshop.html",
    "notebooks/solutions/workshop.html",
    "assets/deck.html",
    "assets/run-sheet.html",
    "assets/handout.html",
    "assets/convert.html",
    "assets/glossary.html",
    "assets/error-texts.html",
    "assets/tutorials.html",
    "assets/how-fast.html",
    "assets/platforms.html",
    "assets/day-before.html",
    "assets/semester.html",
]
# PyTorch's page *Distributed* lists the tutorials; the course's first readers named the rest.
TUTORIALS = [
    "tutorials/beginner/ddp_series_intro.html",
    "tutorials/intermediate/ddp_tutorial.html",
    "tutorials/advanced/generic_join.html",
    "tutorials/intermediate/FSDP_tutorial.html",
    "tutorials/intermediate/FSDP_advanced_tutorial.html",
    "tutorials/intermediate/TP_tutorial.html",
    "tutorials/recipes/distributed_device_mesh.html",
    "tutorials/intermediate/rpc_tutorial.html",
    "tutorials/intermediate/rpc_param_server_tutorial.html",
    "tutorials/intermediate/rpc_async_execution.html",
    "tutorials/advanced/rpc_ddp_tutorial.html",
    "tutorials/intermediate/process_group_cpp_extension_tutorial.html",
    "tutorials/intermediate/dist_tuto.html",
    "tutorials/beginner/saving_loading_models.html",
    "docs/stable/distributed.elastic.html",
    "docs/stable/elastic/kubernetes.html",
    "torchx/latest/",
    "docs/stable/elastic/metrics.html",
]
ADDRESS = "https://course.example/pytorch"
REPOSITORY = "https://github.com/owner/course"
LESSONS = {
    "version": "9.8.7",
    "lessons": {
        "notebooks/05_collectives": {
            "number": "05",
            "english": "Collectives",
            "chinese": "集體通訊",
            "sentence": "Ranks exchange data.",
            "sentence_chinese": "rank 之間交換資料。",
            "needs": [],
            "torch": "",
            "opens": {},
        },
        "notebooks/06_ddp": {
            "number": "06",
            "english": "DDP",
            "chinese": "分散式資料平行",
            "sentence": "Two *ranks* train one model.",
            "sentence_chinese": "兩個 `rank` 訓練一個模型。",
            "needs": ["05"],
            "torch": "2.15.0+cu132",
            "opens": {"kaggle": "https://k.example/?src={repository}&gpu=2"},
        },
    },
}
LESSON = """# 06 · DDP · 分散式資料平行

Core 50 minutes.

核心 50 分鐘。

(cell-06_ddp-abc-1)=
## Train · 開始訓練

Now we train.

現在開始訓練。
"""


@cache
def parsed(path: Path) -> BeautifulSoup:
    """A page's head and its own text, without its navigation."""
    return BeautifulSoup(path.read_text(), "html.parser", parse_only=SoupStrainer(OWN))


def links(path: Path) -> set[Path]:
    """The pages that a page's own text leads to."""
    text = path.read_text()
    text = text[text.find("<article") :]
    found = set()
    for address in re.findall(r'<a\b[^>]*\bhref="([^"#]+)', text.partition("</article>")[0]):
        if not re.match("[a-z]+:", address):
            found.add((path.parent / unquote(address)).resolve())
    return found


@pytest.fixture(scope="module")
def front(site: Path) -> BeautifulSoup:
    return parsed(site / "index.html")


@pytest.fixture(scope="module")
def table() -> list[list[str]]:
    """The rows of the tables of errors, as they are built."""
    rows = []
    for line in (ROOT / "assets" / "error-texts.md").read_text().splitlines():
        if line.startswith("| `"):
            rows.append(line.strip("| ").split(" | "))
    return rows


def test_the_doors_are_those_of_the_readme_and_lead_to_pages(
    front: BeautifulSoup, site: Path
) -> None:
    doors = front.select(".door")
    known = build_parts.doors(COURSE)
    assert len(doors) == len(known) == 5
    for door, told in zip(doors, known, strict=True):
        addresses = [link["href"] for link in door.select("a")]
        assert addresses == [site_front.page(link.to) for link in told.links]
        assert all((site / address).is_file() for address in addresses)
        assert f"{told.minutes} minutes" in door.get_text()
        assert {text["lang"] for text in door.select("[lang]")} == {"en", "zh-Hant-TW"}


def test_the_front_page_shows_the_parts_and_when_one_is_done(front: BeautifulSoup) -> None:
    parts = build_parts.parts(COURSE)
    headings = front.select("#lessons h3, section > h3")
    for part in parts:
        [heading] = [each for each in headings if f"{part.english} {part.range}" in each.get_text()]
        steps = heading.find_next("ol", class_="ladder").find_all("li", recursive=False)
        assert [step["id"] for step in steps] == [f"lesson-{one.number}" for one in part.lessons]
    assert [len(part.done) for part in parts] == [3, 0, 0]
    assert len(front.select(".done li")) == 6  # in two languages
    assert front.select_one(".why img")["src"] == "front/curve.png"


@pytest.mark.parametrize(
    "name", ["index", "search", "notebooks/06_ddp", "errors/address-already-in-use"]
)
def test_the_sidebar_lists_the_lessons_by_part(site: Path, name: str) -> None:
    path = site / f"{name}.html"
    page = BeautifulSoup(path.read_text(), "html.parser")
    captions = page.select(".bd-sidebar-primary nav p.caption")
    parts = build_parts.parts(COURSE)
    assert sum(len(part.lessons) for part in parts) == len(COURSE.sources)
    for part in parts:
        name = f"{part.english} {part.range}"
        [caption] = [each for each in captions if name in each.get_text()]
        links = caption.find_next_sibling("ul").select("a")
        there = [site / f"notebooks/{lesson.path.stem}.html" for lesson in part.lessons]
        to = [str(link["href"]).replace("#", path.name) for link in links]  # "#" is this page
        assert [(path.parent / address).resolve() for address in to] == there, part


def test_the_answers_to_the_homework_are_not_on_the_site(site: Path) -> None:
    written = [
        path for path in site.rglob("*") if path.suffix in {".html", ".js", ".json", ".toml"}
    ]
    told = COURSE.asset("homework.toml")["task"]
    telling = {"Answers to the homework", told[1]["english"], told[1]["chinese"]}
    for path in written:
        text = path.read_text()
        assert not any(each in text for each in telling), path


def test_everything_is_two_clicks_away(site: Path) -> None:
    solved = [f"notebooks/solutions/{path.stem}.html" for path in COURSE.sources]
    wanted = {site / name for name in [*THINGS, *solved]}
    if (site / "runs.html").exists():
        wanted.add(site / "runs.html")
    reached = links(site / "index.html")
    for page in list(reached):
        if page.suffix == ".html" and page.exists():
            reached |= links(page)
    assert all(path.is_file() for path in wanted)
    assert not {path.name for path in wanted - reached}


def test_the_map_has_every_lesson_and_every_need(front: BeautifulSoup) -> None:
    needed = routes.needs(COURSE)
    drawn = {path["data-edge"] for path in front.select(".course-map path")}
    assert drawn == {f"{early}-{late}" for late, all_early in needed.items() for early in all_early}
    addresses = [link["href"] for link in front.select(".course-map a")]
    assert addresses == [f"notebooks/{path.stem}.html" for path in COURSE.sources]
    assert "06 ← 05" in front.select_one(".course-map svg title").get_text()


def test_the_ladder_has_goal_minutes_and_figure_of_every_lesson(
    front: BeautifulSoup, site: Path
) -> None:
    steps = front.select(".ladder > li")
    assert len(steps) == len(COURSE.sources)
    for step, path in zip(steps, COURSE.sources, strict=True):
        assert step.select_one("h4 a")["href"] == f"notebooks/{path.stem}.html"
        core, further = minutes.told(COURSE, path)
        told = step.select_one(".minutes").get_text()
        assert f"Core {core} minutes" in told
        assert f"核心 {core} 分鐘" in told
        assert not further or f"further {further}" in told
        goals = [goal.get_text() for goal in step.select(".goal")]
        assert [goal[:5] for goal in goals] == ["After", "學完之後，"]
        check_figure(step.select_one("img"), site)


def check_figure(image: Tag, site: Path) -> None:
    assert image["alt"].strip()
    assert image["loading"] == "lazy"
    header = (site / image["src"]).read_bytes()[16:24]
    assert struct.unpack(">II", header) == (int(image["width"]), int(image["height"]))


@pytest.mark.parametrize(("language", "other"), [("en", CJK), ("zh", re.compile("Afterwards"))])
def test_one_language_leaves_no_separator(
    reading: BrowserContext, site: Path, language: str, other: re.Pattern
) -> None:
    page = reading.new_page()
    page.goto(f"{site.as_uri()}/index.html?lang={language}")
    text = page.locator("article").inner_text()
    assert " · " not in text
    assert not other.search(text)


def test_every_official_tutorial_has_its_lesson() -> None:
    text = (ROOT / "assets" / "tutorials.md").read_text()
    written = {path.stem[:2] for path in COURSE.sources}
    for tutorial in TUTORIALS:
        row = re.search(rf"^\| \[[^|]+\]\(\S+/{tutorial}\) \| (.+) \|$", text, re.MULTILINE)
        assert row, tutorial
        linked = re.findall(r"\[(\d\d)\]\(\.\./notebooks/\1_\w+\.ipynb\)", row[1])
        planned = re.findall(r"(?<![\[/\d])\d\d(?![\]_\d])", row[1])
        assert linked or planned, tutorial
        assert set(linked) <= written
        assert not set(planned) & written, f"link lesson {planned} in the row of {tutorial}"
    assert len(re.findall(r"^\| \[", text, re.MULTILINE)) == len(TUTORIALS)


def test_every_error_text_has_its_page(site: Path, table: list[list[str]]) -> None:
    listed = parsed(site / "assets" / "error-texts.html")
    addresses = {link["href"] for link in listed.select("td a[href^='../errors/']")}
    assert len(addresses) == len(table) == len(list((site / "errors").glob("*.html")))
    titles = {}
    for address in addresses:
        page = parsed((site / "assets" / address).resolve())
        check_error_page(page)
        titles[address] = [text.get_text() for text in page.select("h1 code")]
    for first, *_ in table:
        assert re.findall("`(.+?)`", first) in titles.values()


def check_error_page(page: BeautifulSoup) -> None:
    """Cause, remedy and the way to a cell, in both languages; and the way back to the table."""
    sections = page.select("article section section")
    headings = [section.h2.get_text() for section in sections[:3]]
    for heading, start in zip(headings, ("Cause", "Remedy", "The cell"), strict=True):
        assert heading.startswith(start)
        assert CJK.search(heading)
    for section in sections[:2]:
        texts = section.select("p")
        assert any(ENGLISH.search(text.get_text()) for text in texts if not is_chinese(text))
        assert any(is_chinese(text) for text in texts)
    cells = sections[2].select("a[href*='.html#cell-']")
    assert {is_chinese(cell) for cell in cells} == {True, False}
    assert page.select("article a[href='../assets/error-texts.html']")


def is_chinese(node: Tag) -> bool:
    return bool(CJK.search(node.get_text()))


def test_the_remedy_of_a_page_is_that_of_its_row(site: Path, table: list[list[str]]) -> None:
    pages = list(map(parsed, (site / "errors").glob("*.html")))
    by_text = {}
    for page in pages:
        by_text[page.h1.code.get_text()] = page.article.get_text().replace("’", "'")
    for first, middle, last in table:
        remedy = middle if "github.com" in last else last
        start = re.split(r"[\[`]|[:;,]? (?:see|as in)| · ", remedy.removeprefix("↑ "))[0][1:]
        assert start in by_text[re.findall("`(.+?)`", first)[0]]


def test_the_watchdog_has_a_page(site: Path) -> None:
    names = [path.name for path in (site / "errors").glob("*.html")]
    assert "watchdog-caught-collective-operation-timeout.html" in names


def test_each_lesson_is_described_in_both_languages(site: Path) -> None:
    for path in COURSE.sources:
        text = (site / "notebooks" / f"{path.stem}.html").read_text()
        page = BeautifulSoup(text[: text.find("</h1>", text.find("<article"))], "html.parser")
        told = page.select_one('meta[name="description"]')["content"]
        for text in (page.title.get_text(), told):
            assert CJK.search(text)
            assert ENGLISH.search(text)
        assert not re.search(r"Core \d|[*`]", told)
        landing = [line.get_text() for line in page.select("article p.landing")]
        assert [path.stem[:2] in line for line in landing] == [True, True]
        needs = routes.needs(COURSE)[path.stem[:2]]
        assert all(number in line for number in needs for line in landing)
        assert page.select_one("article p.landing a[href='../index.html']")


def small_site(folder: Path, **settings: str) -> Path:
    """A site of three pages, by the settings of the whole, with the extension that is tested."""
    pages = folder / "pages"
    (pages / "notebooks").mkdir(parents=True)
    (pages / "lessons.json").write_text(json.dumps(LESSONS))
    names = "notebooks/05_collectives\nnotebooks/06_ddp"
    (pages / "index.md").write_text(f"# The course · 課程\n\n```{{toctree}}\n{names}\n```\n")
    (pages / "notebooks" / "05_collectives.md").write_text("# 05 · Collectives · 集體通訊\n")
    (pages / "notebooks" / "06_ddp.md").write_text(LESSON)
    faults = Faults(Places(ROOT, pages))
    ours = [f"course.site.extensions.{name}" for name in ("languages", "outside")]
    few = {"extensions": ["myst_nb", *ours]}
    site_build.run_sphinx(folder, faults, few | settings)
    assert not faults.all
    return folder / "html"


def test_without_an_address_nothing_is_told_to_the_outside(tmp_path: Path) -> None:
    site = small_site(tmp_path)
    page = parsed(site / "notebooks" / "06_ddp.html")
    description = page.select_one('meta[name="description"]')["content"]
    assert description == "Two ranks train one model. 兩個 rank 訓練一個模型。"
    assert not (site / "sitemap.xml").exists()
    assert "k.example" not in page.decode()
    outside = 'link[rel="canonical"], meta[property^="og:"], .report, a[href*="issues/new"]'
    assert not page.select(outside)


def test_with_an_address_a_page_can_be_found_and_corrected(tmp_path: Path) -> None:
    site = small_site(tmp_path, course_address=ADDRESS, course_repository=REPOSITORY)
    page = parsed(site / "notebooks" / "06_ddp.html")
    address = f"{ADDRESS}/notebooks/06_ddp.html"
    assert page.select_one('link[rel="canonical"]')["href"] == address
    cards = {card["property"]: card["content"] for card in page.select('meta[property^="og:"]')}
    assert cards["og:url"] == address
    assert cards["og:title"] == "06 · DDP · 分散式資料平行"
    assert "兩個 rank" in cards["og:description"]
    opens = [link["href"] for link in page.select("p.landing a") if "k.example" in link["href"]]
    assert opens == ["https://k.example/?src=owner/course&gpu=2"] * 2  # in each language
    names = re.findall("<loc>(.+?)</loc>", (site / "sitemap.xml").read_text())
    pages = ["index", "notebooks/05_collectives", "notebooks/06_ddp"]
    assert names == [f"{ADDRESS}/{name}.html" for name in pages]
    reports = [link["href"] for link in page.select(".report a")]
    assert len(reports) == 2  # of the page, and of its one section
    for link in reports:
        asked = parse_qs(urlsplit(link).query)
        assert link.startswith(f"{REPOSITORY}/issues/new?")
        assert address in asked["body"][0]
        assert "9.8.7" in asked["body"][0]
        assert "2.15.0+cu132" in asked["body"][0]
    assert "cell-06-ddp-abc-1" in parse_qs(urlsplit(reports[1]).query)["body"][0]
    earlier = parsed(site / "notebooks" / "05_collectives.html")
    asked = parse_qs(urlsplit(earlier.select_one(".report a")["href"]).query)
    assert "torch of the outputs" not in asked["body"][0]  # this lesson has none
