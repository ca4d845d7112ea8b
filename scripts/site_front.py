"""The site's front page, its page on the official tutorials, and a page for each error text."""

import re
from pathlib import Path

from slugify import slugify

import build_minutes
import build_routes
from build_course import Course
from build_grammar import demand
from build_tables import titles

TITLE = "Distributed Training with PyTorch · PyTorch 分散式訓練"
LINK = re.compile(r"\]\(assets/")
ROW = re.compile(r"^\| (?P<texts>`.*?) \| (?P<middle>.*) \| (?P<last>.*) \|$", re.MULTILINE)
TEXT = re.compile(r"`([^`]+)`")


def ladder(course: Course) -> list[str]:
    """The lessons, one a row: title, minutes."""
    rows = ["| lesson · 課 | core · 核心 | further · 延伸 |", "| --- | --- | --- |"]
    for path, (number, english, chinese) in zip(course.sources, titles(course), strict=True):
        core, further = build_minutes.told(course, path)
        link = f"[{number} · {english} · {chinese}](notebooks/{path.stem}.ipynb)"
        rows.append(f"| {link} | {core} | {further or ''} |")
    return rows


def tree(names: list[str], folder: str, caption: str) -> list[str]:
    """A hidden list of pages for the navigation."""
    inside = [f"{name}" for name in names if str(Path(name).parent) == folder]
    return ["```{toctree}", ":hidden:", f":caption: {caption}", "", *inside, "```", ""]


def front(course: Course, names: list[str]) -> str:
    """The first page."""
    routes = build_routes.routes_table(course).partition("\n\n")[0]
    lines = [
        f"# {TITLE}",
        "",
        *ladder(course),
        "",
        "## Routes · 怎麼走",
        "",
        LINK.sub("](assets/", routes),
        "",
        *tree(names, "notebooks", "Lessons · 課程"),
        *tree(names, "notebooks/solutions", "Solutions · 解答"),
        "```{toctree}",
        ":hidden:",
        ":caption: Look up · 查詢",
        "",
        "assets/error-texts",
        "assets/glossary",
        "assets/run-sheet",
        "assets/day-before",
        "assets/semester",
        "```",
    ]
    return "\n".join(lines) + "\n"


def error_pages(course: Course, sources: Path) -> list[str]:
    """A page for each row of the two tables of errors: its texts, what to do, where to read."""
    folder = sources / "errors"
    folder.mkdir()
    names = []
    for table in ("errors", "errors-quoted"):
        path = course.root / "assets" / f"{table}.md"
        for match in ROW.finditer(path.read_text()):
            texts = TEXT.findall(match["texts"])
            slug = slugify(texts[0])
            demand(slug not in names, f"assets/{table}.md", f"two rows make errors/{slug}.html")
            names.append(slug)
            (folder / f"{slug}.md").write_text(f"# {match['texts']}\n\n{match['middle']}\n\n{match['last']}\n")
    return names


def write(course: Course, sources: Path, names: list[str]) -> None:
    (sources / "index.md").write_text(front(course, names))
