"""The tables that the build makes: the list of lessons; errors and the sections on them."""

import re
from pathlib import Path

from nbformat import NotebookNode

import publish_list
from build_course import Course
from build_grammar import Cells, about, demand, own, tags
from build_outputs import identify

ERRORS = "<!-- errors -->"  # where a lesson asks for the table of errors
HEAD = [
    "| lesson | 課程 | minutes · 分鐘 | open · 開啟 | solution · 解答 |",
    "| --- | --- | --- | --- | --- |",
]


def row(course: Course, english: str, chinese: str, minutes: int, stem: str) -> str:
    link = f"notebooks/{stem}.ipynb"
    badges = publish_list.badges(course.listed, link, named=True)
    solution = f"[✓](notebooks/solutions/{stem}.ipynb)"
    return f"| [{english}]({link}) | {chinese} | {minutes} | {badges} | {solution} |"


def lessons_table(course: Course) -> str:
    """The rows of the README's list of lessons."""
    rows = list(HEAD)
    for path, source in course.sources.items():
        title = re.match(r"# (\d+) · (.+?) · (.+)", source.cells[0].source)
        minutes = about(source).get("minutes")
        remedy = "begin with `# 03 · Title · 標題`, and give `minutes` above it."
        demand(title and minutes, course.name(path), remedy)
        rows.append(row(course, f"{title[1]} {title[2]}", title[3], minutes, path.stem))
    cells = [cell for source in course.sources.values() for cell in source.cells]
    if any("workshop" in tags(cell) for cell in cells):
        rows.append(row(course, "The workshop", "九十分鐘的工作坊", 90, "workshop"))
    rows.append("")
    rows += [f"[{place}]: {picture}" for place, picture in publish_list.PICTURES.items()]
    return "\n".join(rows) + "\n"


class Errors:
    """The table of error texts that the newest `--outputs` has met, linked to their sections."""

    def __init__(self, course: Course, lessons: dict[Path, Cells]):
        self.path = course.root / "assets" / "errors.md"
        self.place = course.name(self.path)
        self.cells: dict[str, list[NotebookNode]] = {}
        for path, lesson in lessons.items():
            self.cells[path.stem] = [cell for _, cell in own(lesson)]
            identify(self.cells[path.stem])

    def table(self, folder: str = "") -> str:
        """The rows; their links go through `folder`."""

        def linked(match: re.Match) -> str:
            place = self.section(match[1], match[2])
            return f"[{match[1]}]({folder}{match[2]}.ipynb#cell-id={place})"

        if not self.path.exists():
            return ""
        return re.sub(r"\[([^]]*)\]\((\w+)\.ipynb\)", linked, self.path.read_text())

    def section(self, title: str, lesson: str) -> str:
        """The id of the cell with this heading: Jupyter finds no heading in Chinese."""
        source = f"notebooks/src/{lesson}.md"
        demand(lesson in self.cells, self.place, f"there is no {source}.")
        heading = re.compile(rf"^#+ {re.escape(title)}(?: · |$)", re.MULTILINE)
        prose = [cell for cell in self.cells[lesson] if cell.cell_type == "markdown"]
        ids = [cell.id for cell in prose if heading.search(cell.source)]
        remedy = f"{source} has no section “{title}”: correct its `index` cell."
        demand(ids, self.place, remedy)
        return ids[0]


def fill_errors(lessons: dict[Path, Cells], table: str) -> None:
    """Put the table of errors where a lesson asks for it."""
    for cells in lessons.values():
        for _, cell in cells:
            if cell.cell_type == "markdown":
                cell.source = cell.source.replace(ERRORS, table)
