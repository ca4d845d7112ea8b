"""The site's front page, and a page for each error text."""

import base64
import re
from pathlib import Path
from typing import NamedTuple

import nbformat
from jinja2 import Environment, FileSystemLoader
from markdown_it import MarkdownIt
from slugify import slugify

import build_minutes
import build_routes
import site_map
from build_course import Course
from build_grammar import demand
from build_tables import titles

ROW = re.compile(r"^\| (?P<texts>`.*?) \| (?P<middle>.*) \| (?P<last>.*) \|$", re.MULTILINE)
TEXT = re.compile(r"`([^`]+)`")
ERROR_HEAD = re.compile(r"^\| (?P<first>.*?) \| (?P<middle>.*?) \| (?P<last>.*?) \|$", re.MULTILINE)
LOOK_UP = ("error-texts", "glossary", "tutorials", "run-sheet", "day-before", "semester")
TEMPLATES = FileSystemLoader(Path(__file__).with_name("templates"))


class Step(NamedTuple):
    """One lesson on the ladder."""

    number: str
    english: str
    chinese: str
    goal: str  # HTML
    goal_chinese: str  # HTML
    core: str
    further: int
    page: str
    figure: str  # "" if it has none
    alt: str


def goals(course: Course, path: Path) -> tuple[str, str]:
    """What one can do after a lesson, in English and in Chinese: its third and fourth paragraph."""
    source = course.sources[path].cells[0].source
    blocks = re.split(r"\n\s*\n", source)
    remedy = "the first cell is a title, two paragraphs, and two that say what one can do then."
    demand(len(blocks) >= 5, course.name(path), remedy)
    return blocks[3], blocks[4]


def figure(course: Course, path: Path, folder: Path) -> tuple[str, str]:
    """The first picture that the solved lesson drew, put into `folder`: its name, and its text."""
    notebook = nbformat.read(course.notebooks / "solutions" / f"{path.stem}.ipynb", as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            picture = output.get("data", {}).get("image/png")
            if picture:
                name = f"{path.stem}.png"
                (folder / name).write_bytes(base64.b64decode(picture))
                return name, output.get("metadata", {}).get("image/png", {}).get("alt", "")
    return "", ""


def ladder(course: Course, folder: Path) -> list[Step]:
    """All lessons, in order."""
    text = MarkdownIt().renderInline
    steps = []
    for path, title in zip(course.sources, titles(course), strict=True):
        english, chinese = goals(course, path)
        core, further = build_minutes.told(course, path)
        name, alt = figure(course, path, folder)
        page = f"notebooks/{path.stem}.html"
        steps.append(Step(*title, text(english), text(chinese), core, further, page, name, alt))
    return steps


def tree(names: list[str], caption: str) -> str:
    """A hidden list of pages for the navigation."""
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *names, "```", ""])


def write_front(course: Course, sources: Path, names: list[str]) -> None:
    """index.md: the doors, the routes, the map, the ladder."""
    folder = sources / "extra" / "front"
    folder.mkdir(parents=True)
    steps = ladder(course, folder)
    links = {step.number: (step.page, f"{step.english} · {step.chinese}") for step in steps}
    drawn = site_map.drawn(build_routes.needs(course), links)
    routes = build_routes.routes_table(course).partition("\n\n")[0]
    template = Environment(loader=TEMPLATES, autoescape=True).get_template("front.md.j2")
    lessons = [name for name in names if "/solutions/" not in name]
    solved = [name for name in names if "/solutions/" in name]
    trees = [
        tree(lessons, "Lessons · 課程"),
        tree(
            [f"assets/{name}" for name in LOOK_UP],
            "Look up, and teach · 查詢與教學",
        ),
        tree(solved, "Solutions · 解答"),
    ]
    text = template.render(steps=steps, map=drawn, routes=routes, trees="\n".join(trees))
    (sources / "index.md").write_text(text)


def write_errors(course: Course, sources: Path, link) -> list[str]:
    """A page for each row of the two tables of errors: its texts, what to do, where to read."""
    folder = sources / "errors"
    folder.mkdir()
    names: list[str] = []
    for table in ("errors", "errors-quoted"):
        text = (course.root / "assets" / f"{table}.md").read_text()
        head = ERROR_HEAD.search(text)
        for match in ROW.finditer(text):
            texts = TEXT.findall(match["texts"])
            name = f"errors/{slugify(texts[0])}"
            demand(name not in names, f"assets/{table}.md", f"two rows make the page {name}.html.")
            names.append(name)
            lines = [
                "---\norphan: true\n---",  # reached from the table, the search and from outside
                f"# {match['texts']}",
                *(f"**{head[part]}**\n\n{link(match[part])}" for part in ("middle", "last")),
            ]
            (folder / f"{slugify(texts[0])}.md").write_text("\n\n".join(lines) + "\n")
    return names
