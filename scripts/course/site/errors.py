"""A page for each row of the tables of errors: its texts, the cause, the remedy, where to read.

The texts, the remedies and the links come from the built table, assets/error-texts.md; the causes
from assets/error-causes.toml. Who pastes a message into a search engine should find its page.
"""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from slugify import slugify

from course.languages import CJK
from course.lesson import BuildError, Lesson, demand
from course.sources import Course

ROW = re.compile(r"^\| (?P<texts>`.*?) \| (?P<middle>.*) \| (?P<last>.*) \|$", re.MULTILINE)
TEXT = re.compile(r"`([^`]+)`")
CELL = re.compile(r"\[([^]]*)\]\((\.\./notebooks/\w+\.ipynb#cell-id=[\w-]+)\)")
PLACE = "assets/error-texts.md"
SMALL = ("nccl", "torchrun")  # names without a capital
CAUSES = "assets/error-causes.toml"
QUOTED = "github.com"  # a row of the second table names threads there, and has its remedy first
LAST = "↑"
# What a reader may copy: --option, NAME_OF_VARIABLE=1, name_in_python=True, module.call(…), /path.
NAMES = re.compile(
    r"(?<![\w`/.-])(?:--[a-z][\w-]*|@?\w+(?:\.\w+)+(?:\(\w*\))?|[A-Za-z]+_\w+|/\w+(?:/[\w.]+)+"
    r"|\w+\([^()]*=[^()]*\))(?:=\w+)?",
    re.ASCII,
)
LESSON = re.compile(r"/([a-z\d]+)[_.]")  # its number, or `workshop`
TABLE = "../assets/error-texts.md"
READER = Path(__file__).parent / "templates" / "reader.html"  # a box for a whole output


class Row(NamedTuple):
    """One row of the tables."""

    written: str  # its first column
    texts: list[str]
    links: list[tuple[str, str]]  # heading and address of the sections to read
    remedy: tuple[str, str]
    threads: str  # "" in the first table

    @property
    def name(self) -> str:
        return slugify(self.texts[0])


def both(text: str) -> tuple[str, str]:
    """The English and the Chinese part of `English · 中文`."""
    parts = text.split(" · ")
    for at in range(1, len(parts)):
        english = " · ".join(parts[:at])
        chinese = " · ".join(parts[at:])
        if not CJK.search(english) and CJK.search(chinese):
            return english, chinese
    raise BuildError(f"{PLACE}: “{text[:60]}” gives not both languages, as `English · 中文`.")


def row(match: re.Match) -> Row:
    texts = TEXT.findall(match["texts"])
    links = CELL.findall(match["middle"])
    if QUOTED in match["last"]:
        # A link in the remedy is named below it, once for both languages.
        plain = CELL.sub(lambda link: f"“{link[1].partition(' · ')[0]}”", match["middle"])
        return Row(match["texts"], texts, links, both(plain), match["last"])
    return Row(match["texts"], texts, links, both(match["last"]), "")


def rows(text: str) -> list[Row]:
    """All rows of both tables, each with a page name of its own."""
    found = [row(match) for match in ROW.finditer(text)]
    names = [one.name for one in found]
    for name in names:
        demand(names.count(name) == 1, PLACE, f"two rows make the page {name}.html.")
    return found


def section(course: Course, stem: str, title: str) -> tuple[str, str]:
    """A section of a lesson: its heading in both languages, and the address of its cell."""
    path = course.notebooks / f"{stem}.ipynb"
    demand(path.exists(), CAUSES, f"there is no notebooks/{stem}.ipynb.")
    found = Lesson.at(path).find(title)
    demand(found, CAUSES, f"notebooks/{stem}.ipynb has no section “{title}”.")
    heading, cell = found
    return heading.text, f"../notebooks/{stem}.ipynb#cell-id={cell.node.id}"


def causes(course: Course, found: list[Row]) -> dict[str, dict]:
    """The cause of each row, by its first text; the build stops if one has none, or none a row."""
    path = course.root / CAUSES
    table = tomllib.loads(path.read_text())["cause"] if path.exists() else []
    given = {cause["text"]: cause for cause in table}
    wanted = {one.texts[0] for one in found}
    for text in sorted(wanted - given.keys()):
        raise BuildError(f"{CAUSES}: no cause for `{text}` of {PLACE}: write one.")
    for text in sorted(given.keys() - wanted):
        raise BuildError(f"{CAUSES}: `{text}` begins no row of {PLACE}: remove it.")
    return given


def page(one: Row, cause: dict, links: list[tuple[str, str]]) -> str:
    """The Markdown of one page."""
    english = one.remedy[0].removeprefix(f"{LAST} ")
    chinese = one.remedy[1]
    is_last = one.remedy[0].startswith(LAST)
    blocks = [
        # Reached from the table, the search and from outside.
        f"---\norphan: true\n{'last: true' if is_last else ''}\n---",
        f"# {', '.join(f'`{text}`' for text in one.texts)}",
        *("## Cause · 原因", cause["english"], cause["chinese"]),
    ]
    if is_last:
        blocks += [
            "So this text does not say why the program ended. If your output has another text "
            f"of [the table]({TABLE}), too, look that one up.",
            f"所以這段文字沒有說程式為什麼結束。輸出裡還有[表中]({TABLE})的其他訊息，就查那一個。",
        ]
    blocks += ["## Remedy · 解法", sentence(english), sentence(chinese)]
    blocks += ["## The cell that shows it · 示範的儲存格"]
    for heading, address in links:
        title, title_chinese = both(heading)
        number = LESSON.search(address)[1]
        blocks.append(f"Lesson {number}: [{title}]({address})")
        blocks.append(f"第 {number} 課：[{title_chinese}]({address})")
    if one.threads:
        blocks += ["## Where others met it · 別人遇到的例子"]
        blocks += [f"Reported in {one.threads}.", f"討論串：{one.threads}。"]
    return "\n\n".join(blocks) + "\n"


def sentence(text: str) -> str:
    """A remedy as a sentence: the tables have them without a capital, a full stop and code."""
    is_chinese = CJK.search(text)
    if not (is_chinese or NAMES.match(text) or text.startswith(SMALL)):
        text = text[:1].upper() + text[1:]
    return NAMES.sub(r"`\g<0>`", text) + ("。" if is_chinese else ".")


def with_pages(text: str, found: list[Row]) -> str:
    """The site's copy of the table: each text is a link to its page. Above, the reader."""
    for one in found:
        linked = ", ".join(f"[`{text}`](../errors/{one.name}.md)" for text in one.texts)
        text = text.replace(f"\n| {one.written} |", f"\n| {linked} |", 1)
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{READER.read_text()}{rest}"


def write_errors(course: Course, sources: Path, link: Callable[[str], str]) -> list[str]:
    """All pages, and the links to them in the table, which is in `sources` by then.

    link: makes links that the site can follow. The pages' names.
    """
    folder = sources / "errors"
    folder.mkdir()
    found = rows((course.root / PLACE).read_text())
    given = causes(course, found)
    for one in found:
        cause = given[one.texts[0]]
        links = one.links or [section(course, *cause.get("section", ("", "")))]
        (folder / f"{one.name}.md").write_text(link(page(one, cause, links)))
    table = sources / PLACE
    if table.exists():
        table.write_text(with_pages(table.read_text(), found))
    return [f"errors/{one.name}" for one in found]
