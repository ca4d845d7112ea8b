"""What a page says to a search engine, to who follows a link, to who finds a mistake.

Always: a description in both languages, and above a lesson's title which course this is, which
lesson, and what it needs. Only where the site's address is known: sitemap.xml, the canonical
address, and what a link to the page shows in a chat (Open Graph). Only where the repository is
known: *report a mistake* at each page's end, and, if it is on GitHub, where a lesson can be run.

sources/lessons.json, which course.site.front writes, says what is needed of the lessons.
"""

import json
import re
from html import escape
from pathlib import Path
from urllib.parse import urlencode

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

from course.site.extensions.languages import CHINESE, ENGLISH
from course.site.extensions.wording import both

LONGEST = 300  # characters of a description in one language
HIDDEN = re.compile(r"^(?:search|genindex)\.html$")  # nobody should land there
CELL = re.compile(r"^(?:cell|solved)-")
GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?$")
OPEN = "https?://[^/]+.*"
COURSE = "Distributed Training with PyTorch"
COURSE_CHINESE = "PyTorch 分散式訓練"
TABLE = "assets/error-texts"
EARLIEST = 100  # before finish.py, which gives every page its policy


def check(app: Sphinx, config: Config) -> None:
    """Addresses are whole ones; the site's is also the one that Sphinx calls canonical."""
    for name in ("course_address", "course_repository"):
        address = config[name]
        if address and not re.fullmatch(OPEN, address):
            raise ExtensionError(f"{name} = {address!r}: give an address that begins with https://")
    if config.course_address:
        config.course_address = config.course_address.rstrip("/") + "/"
        config.html_baseurl = config.course_address


def load(app: Sphinx) -> None:
    """The lessons, as course.site.front knows them; none in a folder of other pages."""
    path = Path(app.srcdir) / "lessons.json"
    empty = {"version": "", "lessons": {}}
    app.course = json.loads(path.read_text()) if path.exists() else empty


def words(document: nodes.document, kind: str) -> str:
    """The first paragraph of a page in one language, as plain text."""
    for paragraph in document.findall(nodes.paragraph):
        if kind in paragraph.get("classes", []):
            return " ".join(paragraph.astext().split())
    return ""


def plain(text: str) -> str:
    """Markdown without its marks: it has emphasis, code and links."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[*`]", "", text)


def short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"


def description(lesson: dict | None, document: nodes.document) -> str:
    """What a page is about, in both languages, each as far as there is anything."""
    if lesson:
        parts = [plain(lesson["sentence"]), plain(lesson["sentence_chinese"])]
    else:
        parts = [words(document, ENGLISH), words(document, CHINESE)]
    return " ".join(short(part) for part in parts if part)


def meta(attribute: str, name: str, content: str) -> str:
    return f'\n    <meta {attribute}="{name}" content="{escape(content)}" />'


def landing(app: Sphinx, page: str, lesson: dict) -> str:
    """The lines above a lesson's title: which course, which lesson, what it needs."""
    by_number = {other["number"]: name for name, other in app.course["lessons"].items()}

    def link(number: str) -> str:
        name = by_number.get(number, "")
        if name not in app.env.found_docs:
            return number
        title = app.course["lessons"][name]
        told = escape(f"{title['english']} · {title['chinese']}")
        address = app.builder.get_relative_uri(page, name)
        return f'<a href="{address}" title="{told}">{number}</a>'

    front = app.builder.get_relative_uri(page, app.config.root_doc)
    english = f'Lesson {lesson["number"]} of the course <a href="{front}">{COURSE}</a>.'
    chinese = f'<a href="{front}">{COURSE_CHINESE}</a>課程的第 {lesson["number"]} 課。'
    needs = list(map(link, lesson["needs"]))
    if needs:
        english += f" Before this lesson: {', '.join(needs)}."
        chinese += f"先學：{'、'.join(needs)}。"
    opens = opened(app.config.course_repository, lesson)
    if opens:
        english += f" Run it: {', '.join(opens)}."
        chinese += f"執行：{'、'.join(opens)}。"
    return lines(english, chinese)


def opened(repository: str, lesson: dict) -> list[str]:
    """Links that open the lesson on Kaggle and on Colab, which take it from GitHub alone."""
    name = GITHUB.match(repository)
    if not name:
        return []
    places = {"kaggle": "Kaggle", "colab": "Colab"}
    return [
        f'<a href="{escape(address.format(repository=name[1]))}">{places[place]}</a>'
        for place, address in lesson["opens"].items()
    ]


def landing_error(app: Sphinx, page: str) -> str:
    """The lines above an error text: who explains it, and where the others are."""
    front = app.builder.get_relative_uri(page, app.config.root_doc)
    table = app.builder.get_relative_uri(page, TABLE)
    english = (
        f'One of <a href="{table}">the error texts</a> that the course '
        f'<a href="{front}">{COURSE}</a> explains.'
    )
    chinese = (
        f'<a href="{front}">{COURSE_CHINESE}</a>課程說明的<a href="{table}">錯誤訊息</a>之一。'
    )
    return lines(english, chinese)


def lines(english: str, chinese: str) -> str:
    return (
        f'<p class="landing" lang="en">{english}</p>\n'
        f'<p class="landing" lang="zh-Hant-TW">{chinese}</p>\n'
    )


def sections(document: nodes.document) -> list[tuple[str, str]]:
    """The main sections of a page: each heading, and the label of its cell or else its own id."""
    found = []
    for section in document.findall(nodes.section):
        if isinstance(section.parent, nodes.section) and section.parent.parent is document:
            ids = section["ids"]
            name = next(filter(CELL.match, ids), ids[0])
            found.append((section[0].astext(), name))
    return found


def issue(app: Sphinx, page: str, lesson: dict | None, place: str = "") -> str:
    """The address that opens a new issue about a place in a page."""
    name = f"{page}.html{f'#{place}' if place else ''}"
    told = [f"Page · 頁面: {app.config.course_address}{name}"]
    if place:
        told.append(f"Cell · 儲存格: {place}")
    if app.course["version"]:
        told.append(f"Course · 課程版本: {app.course['version']}")
    if lesson and lesson["torch"]:
        told.append(f"torch of the outputs · 輸出的 torch 版本: {lesson['torch']}")
    told += ["", "What is wrong, and what would be right? · 哪裡不對？應該是什麼？", ""]
    query = urlencode({"title": f"Mistake · 錯誤: {name}", "body": "\n".join(told)})
    return escape(f"{app.config.course_repository.rstrip('/')}/issues/new?{query}")


def report(app: Sphinx, page: str, lesson: dict | None, document: nodes.document) -> str:
    """The link at a page's end; folded below it, one for each section."""
    link = f'<a href="{issue(app, page, lesson)}">{both("report a mistake", "回報錯誤")}</a>'
    places = [
        f'<li><a href="{issue(app, page, lesson, place)}">{escape(heading)}</a></li>'
        for heading, place in sections(document)
    ]
    folded = ""
    if places:
        where = both("in one section", "在其中一節")
        folded = f"<details><summary>{where}</summary><ul>{''.join(places)}</ul></details>"
    return f'<div class="report">{link}{folded}</div>\n'


def add(
    app: Sphinx, page: str, template: str, context: dict, document: nodes.document | None
) -> None:
    """Before a page is written: what it says to the outside."""
    if document is None:
        return  # the search, the index
    lesson = app.course["lessons"].get(page)
    told = description(lesson, document)
    tags = meta("name", "description", told) if told else ""
    if app.config.course_address:
        tags += meta("property", "og:type", "article" if lesson else "website")
        tags += meta("property", "og:site_name", app.config.html_title)
        tags += meta("property", "og:title", document.next_node(nodes.title).astext())
        tags += meta("property", "og:description", told)
        tags += meta("property", "og:url", f"{app.config.course_address}{page}.html")
    context["metatags"] = context.get("metatags", "") + tags
    if page == app.config.root_doc:
        context["docstitle"] = ""  # its own title is the course's: once is enough
    if lesson:
        context["body"] = landing(app, page, lesson) + context["body"]
    elif page.startswith("errors/"):
        context["body"] = landing_error(app, page) + context["body"]
    if app.config.course_repository:
        context["body"] += report(app, page, lesson, document)


def write_sitemap(app: Sphinx, error: Exception | None) -> None:
    """sitemap.xml: the address of every page."""
    if error or app.builder.name != "html" or not app.config.course_address:
        return
    site = Path(app.outdir)
    names = sorted(str(path.relative_to(site)) for path in site.glob("**/*.html"))
    rows = [
        f"  <url><loc>{escape(app.config.course_address + name)}</loc></url>"
        for name in names
        if not HIDDEN.match(name) and not name.startswith("_static/")
    ]
    head = '<?xml version="1.0" encoding="utf-8"?>'
    opening = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    (site / "sitemap.xml").write_text("\n".join([head, opening, *rows, "</urlset>"]) + "\n")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("course_address", "", "html", str)
    app.add_config_value("course_repository", "", "html", str)
    app.connect("config-inited", check)
    app.connect("builder-inited", load)
    app.connect("html-page-context", add)
    app.connect("build-finished", write_sitemap, priority=EARLIEST)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
