"""The site's front page; and lessons.json, what the pages' extensions must know of each lesson."""

import base64
import json
import re
import struct
import tomllib
from pathlib import Path
from typing import NamedTuple

import nbformat
from jinja2 import Environment, FileSystemLoader
from markdown_it import MarkdownIt

from course.facts import kept, parts
from course.facts.minutes import told
from course.facts.routes import needs, routes_table
from course.listed import addresses
from course.site import map
from course.sources import Course

LOOK_UP = ("convert", "error-texts", "glossary", "tutorials", "how-fast", "platforms", "on-kaggle")
LOOK_UP += ("machines",)
TEACH = ("run-sheet", "day-before", "semester")
TEMPLATES = FileSystemLoader(Path(__file__).parent)
WORD = re.compile(r"\b(\d\d|workshop)\b")
REPOSITORY = "{repository}"  # in the addresses of lessons.json, until it is known
LESSONS = "lessons.json"  # beside the pages' sources; extensions/outside.py reads it


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
    solved: str
    figure: str  # "" if it has none
    alt: str
    width: int  # of the figure
    height: int


def size(picture: bytes) -> tuple[int, int]:
    """Width and height of a PNG, which stand at the same place in each."""
    return struct.unpack(">II", picture[16:24])


def figure(course: Course, path: Path, folder: Path) -> tuple[str, str, int, int]:
    """The first picture that the solved lesson drew, put into `folder`: name, text, size."""
    notebook = nbformat.read(course.notebooks / "solutions" / f"{path.stem}.ipynb", as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            coded = output.get("data", {}).get("image/png")
            if coded:
                picture = base64.b64decode(coded)
                name = f"{path.stem}.png"
                (folder / name).write_bytes(picture)
                alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
                return name, alt, *size(picture)
    return "", "", 0, 0


def ladder(course: Course, folder: Path) -> dict[str, Step]:
    """All lessons, in order, by number."""
    text = MarkdownIt().renderInline
    steps = {}
    for path, title in zip(course.sources, course.titles(), strict=True):
        opening = course.opening(path)
        goals = (text(opening.goal), text(opening.goal_chinese))
        minutes = told(course, path)
        pages = (f"notebooks/{path.stem}.html", f"notebooks/solutions/{path.stem}.html")
        step = Step(*title, *goals, *minutes, *pages, *figure(course, path, folder))
        steps[step.number] = step
    return steps


def routes(course: Course) -> str:
    """The table of routes, its lessons as links to their pages."""
    pages = {path.stem[:2]: f"notebooks/{path.stem}.ipynb" for path in course.sources}
    pages["workshop"] = "notebooks/workshop.ipynb"

    def link(match: re.Match) -> str:
        page = pages.get(match[1])
        return f"[{match[1]}]({page})" if page else match[1]

    rows = []
    for row in routes_table(course, "assets/semester.md").partition("\n\n")[0].splitlines():
        cells = row.split(" | ")
        for column in (1, 3):
            cells[column] = WORD.sub(link, cells[column])
        rows.append(" | ".join(cells))
    return "\n".join(rows)


def page(link: str) -> str:
    """Where a path of the repository is on the site."""
    return re.sub(r"\.(?:md|ipynb)$", ".html", link)


def curve(course: Course, folder: Path) -> tuple[int, int]:
    """The course's picture, put into `folder`, and its size."""
    picture = (course.root / kept.PICTURE).read_bytes()
    (folder / "curve.png").write_bytes(picture)
    return size(picture)


def tree(names: list[str], caption: str) -> str:
    """A hidden list of pages for the navigation."""
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *names, "```", ""])


def trees(course: Course, names: list[str], runs: bool) -> str:
    """The navigation: the parts, pages to look up, pages for teachers, solutions."""
    found = []
    for part in parts.parts(course):
        lessons = [f"notebooks/{lesson.path.stem}" for lesson in part.lessons]
        there = [name for name in lessons if name in names]
        found.append(tree(there, f"{part.english} {part.range} · {part.chinese}"))
    sheets = [f"assets/{name}" for name in LOOK_UP]
    if runs:
        sheets.append("runs")
    found.append(tree(sheets, "Look up · 查詢"))
    workshop = [name for name in names if name == "notebooks/workshop"]
    found.append(tree([*workshop, *(f"assets/{name}" for name in TEACH)], "Teach · 教學"))
    found.append(tree([name for name in names if "/solutions/" in name], "Solutions · 解答"))
    return "\n".join(found)


def torch_version(course: Course, path: Path) -> str:
    """The torch that a lesson's kept outputs come from; "" if it has none."""
    notebook = nbformat.read(course.notebooks / f"{path.stem}.ipynb", as_version=4)
    return notebook.metadata.get("course", {}).get("outputs", {}).get("torch", "")


def write_lessons(course: Course, sources: Path) -> None:
    """lessons.json: the course's version, and what the extensions must know of each lesson."""
    needed = needs(course)
    listed = course.listed | {"repository": REPOSITORY}
    lessons = {}
    for path, (number, english, chinese) in zip(course.sources, course.titles(), strict=True):
        opening = course.opening(path)
        lessons[f"notebooks/{path.stem}"] = {
            "number": number,
            "english": english,
            "chinese": chinese,
            "sentence": opening.sentence,
            "sentence_chinese": opening.sentence_chinese,
            "needs": needed[number],
            "torch": torch_version(course, path),
            "opens": addresses(listed, f"notebooks/{path.stem}.ipynb"),
        }
    project = course.root / "pyproject.toml"
    version = tomllib.loads(project.read_text())["project"]["version"] if project.exists() else ""
    text = json.dumps({"version": version, "lessons": lessons}, ensure_ascii=False, indent=1)
    (sources / LESSONS).write_text(text)


def write_front(course: Course, sources: Path, names: list[str]) -> None:
    """index.md: the doors, the parts, the routes, the map. `names`: the notebooks of the site.

    runs.md, if it is in `sources` by then, is linked, too.
    """
    folder = sources / "extra" / "front"
    folder.mkdir(parents=True)
    needed = needs(course)
    runs = (sources / "runs.md").exists()
    template = Environment(loader=TEMPLATES, autoescape=True).get_template("front.md.j2")
    text = template.render(
        curve=curve(course, folder),
        doors=parts.doors(course),
        page=page,
        parts=parts.parts(course),
        steps=ladder(course, folder),
        routes=routes(course),
        lines=map.lines(needed),
        places=map.places(needed),
        runs=runs,
        trees=trees(course, names, runs),
    )
    (sources / "index.md").write_text(text.lstrip())
    write_lessons(course, sources)
