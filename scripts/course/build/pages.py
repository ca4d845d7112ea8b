"""What the build writes into pages: tables of lessons and errors, code, numbers, badges."""

import html
import re
import textwrap
from pathlib import Path

from nbformat import NotebookNode

from course import listed
from course.evidence import page as evidence
from course.evidence.kept import KAGGLE, machines
from course.facts import minutes
from course.facts.parts import doors_table, lessons_table, part_items
from course.facts.routes import routes_table
from course.filled import filled_region, with_numbers
from course.lesson import WORKSHOP, Lesson, about, demand
from course.sources import Course

# ---- the tables of errors


ERRORS = "<!-- errors -->"  # where a lesson asks for the tables of errors
SEARCH = """Take a few words of your message (no path, no number and no name of your own) and \
search this page for them (Ctrl-F). The first column holds a piece of each message. If several \
rows fit, take the one with the longest piece. A row with ↑ does not say why the program ended: \
if another row fits (in the second table, too), take that one; otherwise read further up in your \
message.

從訊息裡取幾個字（不要路徑、數字，也不要自己取的名稱），在這一頁搜尋（Ctrl-F）。第一欄是每種訊息的\
片段。有好幾列符合時，取片段最長的一列。標了 ↑ 的不是原因：還有別列符合（第二張表也算）\
就看別列；沒有的話，往訊息的更上面找。
"""
QUOTED = """
These messages were not produced in a lesson: many need GPUs, old versions or other libraries. \
They are quoted from other people's bug reports, or from the code that prints them.

下面這些不是在這裡產生的：很多需要 GPU、舊版本或別的函式庫。引用自別人的討論串，或印出它們的程式碼。
"""


class Errors:
    """The table of error texts that the newest `--outputs` has met, linked to their sections.

    And the table of those that are only quoted, which is written by hand.
    """

    def __init__(self, course: Course, lessons: dict[Path, Lesson]):
        self.path = course.root / "assets" / "errors.md"
        self.quoted = self.path.with_name("errors-quoted.md")
        self.place = course.name(self.path)
        self.lessons = {path.stem: lesson.own for path, lesson in lessons.items()}

    def table(self, folder: str = "") -> str:
        """How to search, and the rows of both tables; their links go through `folder`."""

        def linked(match: re.Match) -> str:
            heading, place = self.section(match[1], match[2])
            return f"[{heading}]({folder}{match[2]}.ipynb#cell-id={place})"

        parts = []
        if self.path.exists():
            parts += [SEARCH, self.path.read_text()]
        if self.quoted.exists():
            parts += [QUOTED, self.quoted.read_text()]
        return re.sub(r"\[([^]]*)\]\((\w+)\.ipynb\)", linked, "\n".join(parts))

    def section(self, title: str, lesson: str) -> tuple[str, str]:
        """The heading in both languages, and the id of its cell.

        The id is for the link: Jupyter finds no heading in Chinese.
        """
        source = f"notebooks/src/{lesson}.md"
        demand(lesson in self.lessons, self.place, f"there is no {source}.")
        target = self.lessons[lesson].find(title)
        remedy = f"{source} has no section “{title}”: correct its `index` cell."
        demand(target, self.place, remedy)
        heading, cell = target
        return heading.text, cell.node.id


def fill_errors(lessons: dict[Path, Lesson], table: str) -> None:
    """Put the table of errors where a lesson asks for it."""
    for lesson in lessons.values():
        for cell in lesson.cells:
            if not cell.is_code:
                cell.source = cell.source.replace(ERRORS, table)


# ---- pages


CODE = re.compile(r'(<pre [^>]*?data-src="([^"]*)"[^>]*>).*?(</pre>)', re.DOTALL)
ADDRESS = re.compile(r'(<code [^>]*?data-address="(\w+)">).*?(</code>)')
# A text that stays as in `data-else` until two T4s have measured something: see evidence.page.
T4 = re.compile(r'(<span data-t4="([^"]*)" data-else="([^"]*)">).*?(</span>)')
COMMENT = re.compile("  # .*$", re.MULTILINE)  # behind code
CODE_OF_CLASS = re.compile(r'(<p class="qr" data-address="class">).*?(</p>)', re.DOTALL)


def filled_tables(course: Course, errors: Errors) -> dict[Path, str]:
    """The README with its doors and lessons; the pages of routes and of error texts."""
    tables = {
        "README.md": {"doors": doors_table(course), "lessons": lessons_table(course)},
        "assets/routes.md": {"routes": routes_table(course)},
        "assets/error-texts.md": {"errors": errors.table("../notebooks/")},
    }
    pages = {}
    for place, regions in tables.items():
        path = course.root / place
        if not path.exists():
            continue
        text = path.read_text()
        for name, table in regions.items():
            text = filled_region(text, name, table, place)
        pages[path] = with_t4(course, with_numbers(course.root, text, place))
    return pages


def with_t4(course: Course, text: str) -> str:
    """A text with what two T4s showed, as far as they did."""
    rows = course.measured.get(KAGGLE, {})

    def told(match: re.Match) -> str:
        value = evidence.field(rows, match[2])
        return match[1] + (match[3] if value is None else html.escape(value)) + match[4]

    return T4.sub(told, text)


def machine_tables(course: Course) -> dict[str, str]:
    """The tables of the page on machines."""
    guesses = {path.stem: about(source)["gpu_minutes"] for path, source in course.sources.items()}
    guesses = {stem: minutes for stem, minutes in guesses.items() if minutes}
    files = machines(course.root)
    for name, file in files.items():
        file["rows"] = list(course.measured.get(name, {}).values())
    own = {name: file for name, file in files.items() if file["rows"]}
    rows = course.measured.get(KAGGLE, {})
    return {"two-t4s": evidence.two_t4s(rows, guesses), "machines": evidence.others(own)}


def filled_page(course: Course, path: Path) -> str:
    """A page of assets/ with its code, numbers, addresses and parts filled in."""
    place = course.name(path)

    def code(match: re.Match) -> str:
        return match[1] + html.escape(excerpt(course, match[2], place), quote=False) + match[3]

    def address(match: re.Match) -> str:
        known = listed.typed(course.listed)
        demand(match[2] in known, place, f"no address “{match[2]}”: {', '.join(known)}.")
        return match[1] + html.escape(known[match[2]], quote=False) + match[3]

    def code_of_class(match: re.Match) -> str:
        return match[1] + drawn(course.listed.get("class_url", "")) + match[2]

    text = course.with_lines(CODE.sub(code, path.read_text()), place)
    text = with_t4(course, with_numbers(course.root, text, place))
    text = CODE_OF_CLASS.sub(code_of_class, ADDRESS.sub(address, text))
    if "<!-- parts: " in text:
        text = filled_region(text, "parts", part_items(course), place)
    if "<!-- machines: " in text:
        for name, table in machine_tables(course).items():
            text = filled_region(text, name, table, place)
    return text


def drawn(address: str) -> str:
    """An address as a QR code in SVG, for paper; the deck draws its own, as it can be edited."""
    if not address:
        return ""
    import segno  # takes a moment

    code = segno.make(address, error="m", micro=False)
    return code.svg_inline(border=4, omitsize=True, dark="#000", light="#fff")


def excerpt(course: Course, source: str, place: str) -> str:
    """`ddp.py#L10-L14`: these lines; `ddp.py#name`: those from `# region name` to `# endregion`.

    Without the comments behind them, which speak of the rest of the program.
    """
    name, _, part = source.partition("#")
    lines = course.program(name, True, place).splitlines()
    numbers = re.fullmatch(r"L(\d+)-L(\d+)", part)
    if numbers:
        first, last = map(int, numbers.groups())
        shown = lines[first - 1 : last] if 0 < first <= last <= len(lines) else []
    else:
        shown = region(lines, part)
    demand(shown, place, f"{source} is nowhere: write NAME.py#L1-L9 or NAME.py#region.")
    return COMMENT.sub("", textwrap.dedent("\n".join(shown))).rstrip("\n")


def region(lines: list[str], name: str) -> list[str]:
    """The lines from `# region name` to the next `# endregion`; none without such a region."""
    marks = [line.strip() for line in lines]
    if f"# region {name}" not in marks:
        return []
    first = marks.index(f"# region {name}") + 1
    length = marks[first:].index("# endregion") if "# endregion" in marks[first:] else 0
    return lines[first : first + length]


def links(course: Course, name: str) -> str:
    """Badges that open a notebook elsewhere, and the way back to its source."""
    source = listed.source(course.listed, name)
    line = f"{listed.badges(course.listed, name)} [source · 原始檔]({source})"
    if name == course.name(course.workshop):  # imported by its badge, it has no file beside it
        twin = listed.source(course.listed, f"notebooks/solutions/{WORKSHOP}.ipynb")
        line += f" [solved, with outputs · 解答與輸出]({twin})"
    return line


def add_head(course: Course, notebook: NotebookNode, name: str) -> None:
    """Put links and the lesson's minutes under the title.

    The metadata tell Kaggle and Colab which machine the notebook wants.
    """
    first = notebook.cells[0]
    title = re.match("# .*", first.source)
    if title:
        lines = [title[0]]
        if course.listed["repository"]:
            lines.append(links(course, name))
        lesson = course.notebooks / "src" / Path(name).with_suffix(".md").name
        if lesson in course.sources:
            lines.append(minutes.head(course, lesson))
        first.source = "\n\n".join(lines) + first.source[title.end() :]
    settings = listed.settings(course.listed, name)
    notebook.metadata |= listed.notebook_metadata(settings)
