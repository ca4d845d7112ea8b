"""The sources of the site, laid out as the repository is: notebooks with outputs, sheets, a front
page and a page for each error text.

A notebook loses its badges (they are pictures from elsewhere), and each exercise gets its solution,
folded. Links to cells become links to labels, which Sphinx follows from page to page.
"""

import copy
import difflib
import json
import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

import site_front
from build_course import Course
from build_grammar import demand, tags
from build_lessons import EXERCISE

BADGES = re.compile(r"^\[!\[Open in Kaggle\].*\n?", re.MULTILINE)
CELL = re.compile(r"\((?:[\w./]*?(?P<stem>\w+)\.ipynb)?#cell-id=(?P<cell>[\w-]+)\)")
CODE = re.compile(r"^(```+).*?^\1", re.MULTILINE | re.DOTALL)
SHEETS = ("glossary", "tutorials", "run-sheet", "day-before", "semester", "error-texts")
PAGES = ("deck.html", "handout.html")  # pages of their own, which are copied as they are
# Links to what is copied as it is; and to files of the repository that the site has no page of.
COPIED = re.compile(r"\[([^]]*)\]\(((?:\.\./)*(?:assets/)?(?:deck|handout)\.html[^)]*)\)")
OUTSIDE = re.compile(r"\[([^]]*)\]\(\.\./(?:README|CONTRIBUTING|CHANGELOG)\.md[^)]*\)")
HEADINGS = re.compile(r"^#+ .*", re.MULTILINE)


def label(stem: str, cell: str, solved: bool) -> str:
    """The label of one cell of a notebook."""
    return f"{'solved' if solved else 'cell'}-{stem}-{cell}"


def linked(text: str, stem: str = "", solved: bool = False) -> str:
    """Prose without badges, and with links that the site can follow."""

    def follow(match: re.Match) -> str:
        return f"(#{label(match['stem'] or stem, match['cell'], solved)})"

    text = CELL.sub(follow, BADGES.sub("", text))
    text = COPIED.sub(r'<a href="\2">\1</a>', text)
    return OUTSIDE.sub(r"\1", text)


def labelled(text: str, name: str) -> str:
    """A Markdown cell with a label to link to, at its first heading if it has one."""
    code = [match.span() for match in CODE.finditer(text)]
    at = 0
    for heading in HEADINGS.finditer(text):
        if not any(begin <= heading.start() < end for begin, end in code):
            at = heading.start()
            break
    return f"{text[:at]}({name})=\n{text[at:]}"


def changed(stub: str, solved: str) -> str:
    """The lines of a solution that its stub has not."""
    before, after = stub.splitlines(), solved.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    parts = [after[j:k] for kind, _, _, j, k in matcher.get_opcodes() if kind != "equal"]
    return "\n".join(line for part in parts for line in part)


def solution(lines: str) -> NotebookNode:
    """A folded Markdown cell with the lines that solve an exercise."""
    text = f"""<details class="solution"><summary>Solution · 解答</summary>

```python
{lines}
```

</details>"""
    cell = nbformat.v4.new_markdown_cell(text)
    cell.metadata["tags"] = ["solution"]
    return cell


def with_solutions(notebook: NotebookNode, solved: NotebookNode) -> list[NotebookNode]:
    """The cells, each exercise followed by what solves it."""
    twins = {cell.id: cell.source for cell in solved.cells}
    cells: list[NotebookNode] = []
    waiting: list[str] = []
    inside = False
    for cell in notebook.cells:
        headings = HEADINGS.findall(cell.source) if cell.cell_type == "markdown" else []
        if headings and inside and waiting:
            cells.append(solution("\n\n".join(waiting)))
            waiting = []
        if headings:
            inside = bool(EXERCISE.match(headings[-1]))
        if cell.cell_type == "code" and twins.get(cell.id, cell.source) != cell.source:
            waiting.append(changed(cell.source, twins[cell.id]))
        cells.append(cell)
    if waiting:
        cells.append(solution("\n\n".join(waiting)))
    return cells


def read(path: Path, name: str, executed: Path | None) -> NotebookNode:
    """A notebook as it ran, if it is among those, else as it is kept."""
    ran = executed / f"{name.replace('/', '-')}.ipynb" if executed else path
    return nbformat.read(ran if ran.exists() else path, as_version=4)


def lesson(path: Path, executed: Path | None = None) -> NotebookNode:
    """One notebook as the site shows it."""
    solved = path.parent.name == "solutions"
    notebook = read(path, f"solutions/{path.stem}" if solved else path.stem, executed)
    twin = path.parent / "solutions" / path.name
    if twin.exists():
        notebook.cells = with_solutions(notebook, nbformat.read(twin, as_version=4))
    cells = []
    for original in notebook.cells:
        cell = copy.deepcopy(original)
        if cell.cell_type == "markdown":
            prose = linked(cell.source, path.stem, solved)
            cell.source = labelled(prose, label(path.stem, cell.id, solved))
        elif "fold" in tags(cell):
            cell.metadata["tags"] = [*tags(cell), "hide-input"]
        cells.append(cell)
    notebook.cells = cells
    notebook.metadata = NotebookNode(language_info={"name": "python", "pygments_lexer": "ipython3"})
    return notebook


def write_notebooks(
    course: Course, sources: Path, only: list[str] | None, executed: Path | None
) -> list[str]:
    """All notebooks, lessons and solved ones: their names without ending."""
    names = []
    for path in sorted(course.notebooks.glob("**/*.ipynb")):
        if only and not path.stem.startswith(tuple(only)):
            continue
        name = path.relative_to(course.root)
        place = sources / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(lesson(path, executed)))
        names.append(str(name.with_suffix("")))
    return names


def linked_error(text: str) -> str:
    """A cell of a table of errors: its links lead from errors/ to the lessons."""
    return linked(re.sub(r"\]\((\w+\.ipynb)", r"](../notebooks/\1", text))


def write_all(course: Course, sources: Path, only: list[str] | None, executed: Path | None) -> None:
    """Everything that Sphinx reads."""
    names = write_notebooks(course, sources, only, executed)
    assets = sources / "assets"
    assets.mkdir(parents=True)
    for sheet in SHEETS:
        text = (course.root / "assets" / f"{sheet}.md").read_text()
        demand(text.startswith("# "), f"assets/{sheet}.md", "a page begins with `# Title · 標題`.")
        (assets / f"{sheet}.md").write_text(linked(text))
    extra = sources / "extra" / "assets"
    extra.mkdir(parents=True)
    for page in PAGES:
        (extra / page).write_text((course.root / "assets" / page).read_text())
    site_front.write_errors(course, sources, linked_error)
    site_front.write_front(course, sources, names)
