"""The sources of the site, laid out as the repository is: notebooks with outputs, sheets, a front
page and a page for each error text.

A notebook loses its badges (they are pictures from elsewhere), and each exercise gets its solution,
folded. Links to cells become links to labels, which Sphinx follows from page to page.
"""

import copy
import difflib
import itertools
import json
import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course.lesson import Lesson, demand, file_of, files_of, headings, tags
from course.machine import processor
from course.rooms import lexer
from course.site import errors, front
from course.sources import Course

BADGES = re.compile(r"^\[!\[Open in Kaggle\].*\n?", re.MULTILINE)
CELL = re.compile(r"\((?:[\w./]*?(?P<stem>\w+)\.ipynb)?#cell-id=(?P<cell>[\w-]+)\)")
SHEETS = ("glossary", "tutorials", "how-fast", "platforms", "run-sheet", "day-before", "semester")
SHEETS += ("error-texts", "convert", "on-kaggle", "machines")
PAGES = ("deck.html", "handout.html")  # pages of their own, which are copied as they are
# Links to what is copied as it is; and to files of the repository that the site has no page of.
COPIED = re.compile(r"\[([^]]*)\]\(((?:\.\./)*(?:assets/)?(?:deck|handout)\.html[^)]*)\)")
OUTSIDE = re.compile(
    r"\[([^]]*)\]\((?:(?:\.\./(?:README|CONTRIBUTING|CHANGELOG)|guides/\w+)\.md|[\w./-]+\.json)[^)]*\)"
)
WHOLE = 15  # lines of a solved cell that is shown whole
AROUND = 2  # lines around a change in a longer one


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
    at = next((heading.at for heading in headings(text)), 0)
    return f"{text[:at]}({name})=\n{text[at:]}"


def hunks(before: list[str], after: list[str]) -> list[tuple[int, int, list[int]]]:
    """The lines of a solution to show: where each part begins and ends, and which lines are new."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    parts: list[tuple[int, int, list[int]]] = []
    for kind, _, _, start, end in matcher.get_opcodes():
        if kind == "equal":
            continue
        fresh = list(range(start, end))
        first = max(0, start - AROUND)
        last = min(len(after), end + AROUND)
        if parts and first <= parts[-1][1]:
            first, _, earlier = parts.pop()
            fresh = earlier + fresh
        parts.append((first, last, fresh))
    if len(after) <= WHOLE:
        return [(0, len(after), [line for _, _, lines in parts for line in lines])]
    return parts


def listing(stub: str, solved: str, file: str) -> str:
    """The changed lines of a cell, which may write a file, and lines around them; all of it if it
    is short.
    """
    before = stub.splitlines()
    after = solved.splitlines()
    blocks = []
    language = lexer(file) if file else "ipython3"
    for first, last, fresh in hunks(before, after):
        lines = after[first:last]
        shift = -first
        if last - first < len(after):
            name = f"{file}, " if file else ""
            top = 0 if file else 1  # the file begins below `%%writefile`
            lines.insert(0, f"# {name}lines {first + top}–{last - 1 + top}")
            shift += 1
        marked = ",".join(str(line + shift + 1) for line in fresh)
        options = f":emphasize-lines: {marked}\n" if marked else ""
        code = "\n".join(lines)
        blocks.append(f"```{{code-block}} {language}\n{options}\n{code}\n```")
    return "\n\n".join(blocks)


def solution(listings: list[str], above: str) -> NotebookNode:
    """A folded Markdown cell with the lines that solve an exercise; `above`: the id before it."""
    listed = "\n\n".join(listings)
    summary = (
        '<span lang="en">Solution</span><span class="between"> · </span>'
        '<span lang="zh-Hant-TW">解答</span>'
    )
    text = f"""<details class="solution"><summary>{summary}</summary>

{listed}

</details>"""
    metadata = {"tags": ["solution"]}
    return nbformat.v4.new_markdown_cell(text, id=f"{above}-solution", metadata=metadata)


def twins(notebook: NotebookNode, solved: NotebookNode) -> dict[str, str]:
    """The code of the solved notebook for each cell that differs there, by the cell's id."""
    before = {cell.id: cell.source for cell in notebook.cells}
    code = [cell for cell in solved.cells if cell.cell_type == "code"]
    return {
        cell.id: cell.source for cell in code if before.get(cell.id, cell.source) != cell.source
    }


def with_solutions(notebook: NotebookNode, solved: NotebookNode) -> list[NotebookNode]:
    """The cells, each exercise followed by what solves it.

    An exercise ends with its check; a program that it has changed may stand ahead of its heading,
    even ahead of another exercise, if only the later one names it.
    """
    changed = twins(notebook, solved)
    sections = Lesson.of(notebook).sections
    asked = [section.words for section in sections if section.exercise]
    cells: list[NotebookNode] = []
    waiting: list[tuple[str, str]] = []  # the file that a cell writes, or "", and its lines
    for section in sections:
        end = 0  # where the solution of this exercise belongs
        for cell in section.cells:
            if cell.node.id in changed:
                lines = listing(cell.source, changed[cell.node.id], cell.file)
                waiting.append((cell.file, lines))
            cells.append(cell.node)
            # The heading, and then where one writes or is told ✓ or ✗.
            if not end or cell.node.id in changed or cell.is_check:
                end = len(cells)
        if section.exercise:
            this, *following = asked
            later = {
                file
                for file, _ in waiting
                if file and file not in this and any(file in words for words in following)
            }
            own = [lines for file, lines in waiting if file not in later]
            waiting = [(file, lines) for file, lines in waiting if file in later]
            if own:
                cells.insert(end, solution(own, cells[end - 1].id))
            asked = following
    return cells


def describe(cell: NotebookNode) -> None:
    """Tell myst-nb what a cell's figure shows: it does not look among what the cell put out."""
    for output in cell.outputs:
        shown = output.get("metadata", {}).get("image/png", {})
        if "alt" in shown:
            cell.metadata["mystnb"] = {"image": {"alt": shown["alt"]}}


def read(path: Path, name: str, executed: Path | None) -> NotebookNode:
    """A notebook as it ran, if it is among those, else as it is kept."""
    ran = executed / f"{name.replace('/', '-')}.ipynb" if executed else path
    return nbformat.read(ran if ran.exists() else path, as_version=4)


def machine(notebook: NotebookNode, kept: bool) -> list[NotebookNode]:
    """A paragraph on the machine that printed what a page shows; none where nothing was printed.

    A notebook that ran for this site ran here, and still tells where its kept outputs come from.
    """
    about = notebook.metadata.get("course", {}).get("outputs", {})
    if kept and not about:
        return []
    parts = [processor()]
    if kept:
        device = about.get("device", "")
        other = about.get("processor", "").replace(device.rpartition(", ")[2], "")
        data = about.get("data", "").replace("none", "")
        parts = [device, other, f"torch {about.get('torch')}", data]
    name = ", ".join(filter(None, parts))
    english = f"The outputs on this page were made on: {name}."
    in_chinese = name.replace(" cores", " 核心").replace("generated pictures", "程式產生的圖片")
    chinese = f"這一頁的輸出來自：{in_chinese}。"
    return [nbformat.v4.new_markdown_cell(f"{english}\n\n{chinese}")]


def apart(node: NotebookNode) -> list[NotebookNode]:
    """A cell of its own for each file that a cell writes; they are one fold, and name them."""
    files = files_of(node.source) if node.cell_type == "code" else {}
    if file_of(node.source) or not files:
        return [copy.deepcopy(node)]
    cells = []
    for number, (name, text) in enumerate(files.items()):
        cell = copy.deepcopy(node)
        cell.source = f"%%writefile {name}\n{text}"
        cell.id = f"{node.id}-{number}" if number else node.id
        cells.append(cell)
    return cells


def lesson(path: Path, executed: Path | None = None) -> NotebookNode:
    """One notebook as the site shows it."""
    solved = path.parent.name == "solutions"
    notebook = read(path, f"solutions/{path.stem}" if solved else path.stem, executed)
    about_machine = machine(notebook, kept=notebook.metadata.get("papermill") is None)
    twin = path.parent / "solutions" / path.name
    if twin.exists():
        notebook.cells = with_solutions(notebook, nbformat.read(twin, as_version=4))
    cells = []
    for cell in itertools.chain.from_iterable(map(apart, notebook.cells)):
        if cell.cell_type == "markdown":
            prose = linked(cell.source, path.stem, solved)
            cell.source = labelled(prose, label(path.stem, cell.id, solved))
        else:
            cell.metadata["tags"] = [*tags(cell), f"id-{cell.id}"]
            describe(cell)
        cells.append(cell)
    notebook.cells = cells + about_machine
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
    errors.write_errors(course, sources, linked_error)
    front.write_front(course, sources, names)
