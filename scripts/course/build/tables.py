"""The titles of all lessons; the tables of errors and of the sections on them."""

import re
from collections.abc import Iterator
from pathlib import Path

from course.sources import Course
from course.lesson import Lesson, demand

ERRORS = "<!-- errors -->"  # where a lesson asks for the tables of errors
SEARCH = """Take a few words of your message (no path, no number and no name of your own) and \
search this page for them (Ctrl-F). The first column holds a piece of each message. If several \
rows fit, take the one with the longest piece. A row with ↑ shows how the program ended, not why: \
if another row fits (in the second table, too), take that one; otherwise read further up in your \
message.

從訊息裡取幾個字（不要路徑、數字，也不要自己取的名稱），在這一頁搜尋（Ctrl-F）。第一欄是每種訊息的\
片段。有好幾列符合時，取片段最長的一列。標了 ↑ 的是結果，不是原因：還有別列符合（第二張表也算）\
就看別列；沒有的話，往訊息的更上面找。
"""
QUOTED = """
These messages were not produced here, because they need GPUs, old versions or other libraries. \
They are quoted from other people's bug reports, two pieces from PyTorch's code.

下面這些不是在這裡產生的：需要 GPU、舊版本或別的函式庫。引用自別人的討論串，其中兩段出自 PyTorch \
的程式碼。
"""


def titles(course: Course) -> Iterator[tuple[str, str, str]]:
    """Number, English and Chinese title of each lesson."""
    for path, source in course.sources.items():
        title = re.match(r"# (\d+) · (.+?) · (.+)", source.cells[0].source)
        place = course.name(path)
        demand(title, place, "begin with `# 03 · Title · 標題`.")
        number = path.stem[:2]
        demand(title[1] == number, place, f"the heading says {title[1]}, the file {number}.")
        yield title.groups()


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
        found = self.lessons[lesson].find(title)
        remedy = f"{source} has no section “{title}”: correct its `index` cell."
        demand(found, self.place, remedy)
        heading, cell = found
        return heading.text, cell.node.id


def fill_errors(lessons: dict[Path, Lesson], table: str) -> None:
    """Put the table of errors where a lesson asks for it."""
    for lesson in lessons.values():
        for cell in lesson.cells:
            if not cell.is_code:
                cell.source = cell.source.replace(ERRORS, table)
