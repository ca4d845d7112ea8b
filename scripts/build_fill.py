"""What the build writes into pages written by hand: tables, code, measured numbers, badges."""

import html
import re
import textwrap
from pathlib import Path

from nbformat import NotebookNode

import build_minutes
import publish_list
from build_course import Course
from build_grammar import demand
from build_numbers import with_numbers
from build_parts import door_items, doors_table, lessons_table, part_items
from build_routes import routes_table
from build_tables import Errors

CODE = re.compile(r'(<pre [^>]*?data-src="([^"]*)"[^>]*>).*?(</pre>)', re.DOTALL)
ADDRESS = re.compile(r'(<code [^>]*?data-address="(\w+)">).*?(</code>)')
COMMENT = re.compile("  # .*$", re.MULTILINE)  # behind code
CODE_OF_CLASS = re.compile(r'(<p class="qr" data-address="class">).*?(</p>)', re.DOTALL)


def filled_region(text: str, name: str, table: str, place: str) -> str:
    """A page with the table between its two marks."""
    begin = f"<!-- {name}: filled by scripts/build.py -->\n"
    region = re.compile(rf"{begin}((?:(?!<!-- ).)*)<!-- end -->", re.DOTALL)
    marked = region.findall(text)
    demand(len(marked) == 1, place, f"it lacks its marked region for the table of {name}.")
    return text.replace(f"{begin}{marked[0]}<!-- end -->", f"{begin}{table}<!-- end -->")


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
        pages[path] = with_numbers(course.root, text, place)
    return pages


def filled_page(course: Course, path: Path) -> str:
    """A page of assets/ with its code, numbers, addresses, parts and doors filled in."""
    place = course.name(path)

    def code(match: re.Match) -> str:
        return match[1] + html.escape(excerpt(course, match[2], place), quote=False) + match[3]

    def address(match: re.Match) -> str:
        known = publish_list.typed(course.listed)
        demand(match[2] in known, place, f"no address “{match[2]}”: {', '.join(known)}.")
        return match[1] + html.escape(known[match[2]], quote=False) + match[3]

    def code_of_class(match: re.Match) -> str:
        return match[1] + drawn(course.listed.get("class_url", "")) + match[2]

    text = course.with_lines(CODE.sub(code, path.read_text()), place)
    text = with_numbers(course.root, text, place)
    text = CODE_OF_CLASS.sub(code_of_class, ADDRESS.sub(address, text))
    for name, items in (("parts", part_items), ("doors", door_items)):
        if f"<!-- {name}: " in text:
            text = filled_region(text, name, items(course), place)
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
    source = publish_list.source(course.listed, name)
    line = f"{publish_list.badges(course.listed, name)} [source · 原始檔]({source})"
    if name == "notebooks/workshop.ipynb":  # imported by its badge, it has no file beside it
        twin = publish_list.source(course.listed, "notebooks/solutions/workshop.ipynb")
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
            lines.append(build_minutes.head(course, lesson))
        first.source = "\n\n".join(lines) + first.source[title.end() :]
    settings = publish_list.settings(course.listed, name)
    notebook.metadata |= publish_list.notebook_metadata(settings)
