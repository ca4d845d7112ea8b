"""What Sphinx says, for people: how far it is, and where in the repository a fault is."""

import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

import nbformat

from course.lesson import headings

COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
STEP = re.compile(r"(?P<step>[a-z][a-z ]+)\.\.\. ?\[ *(?P<percent>\d+)%\]")
RECORD = re.compile(
    r"(?:(?P<place>.*?): )?(?:WARNING|ERROR|CRITICAL): (?P<text>.*?)(?: \[[\w.]+\])?$",
    re.DOTALL,
)
NOWHERE = re.compile(r"cross-reference target not found: ['\"](?P<target>.*)['\"]")
OPTION = re.compile(r"unsupported theme option (?P<option>'.*') given")
TARGET = re.compile(r"\]\([^)]*\)")
CONF = "scripts/course/site/conf.py"
QUIET = 3  # seconds between two lines of progress that go into a file
CELL = 10_000  # myst-nb counts lines so: the third line of the second cell is line 20004


class Fault(NamedTuple):
    """One thing that is wrong with the sources of the site."""

    place: str
    text: str
    link: bool  # a link that leads nowhere

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


class Progress:
    """How far Sphinx is: one line that changes on a terminal, a line now and then in a file."""

    def __init__(self):
        self.told = time.monotonic()
        self.shown = ""

    def write(self, text: str) -> None:
        match = STEP.search(COLOUR.sub("", text))
        if not match:
            return
        line = f"{match['step']}: {match['percent']} %"
        if sys.stdout.isatty():
            print(f"\r{line:40}", end="", flush=True)
            self.shown = line
        elif time.monotonic() - self.told > QUIET:
            print(f"  {line}", flush=True)
            self.told = time.monotonic()

    def flush(self) -> None:
        """Nothing waits."""

    def end(self) -> None:
        """Leave a terminal's line free for what is said next."""
        if self.shown:
            print(f"\r{'':40}\r", end="", flush=True)


def bare(line: str) -> str:
    """A line without the targets of its links, which course.site.pages changes."""
    return TARGET.sub("]()", line).strip()


class Places:
    """Which line of the repository became a line of Sphinx's input."""

    def __init__(self, root: Path, pages: Path):
        self.root = root
        self.pages = pages

    def find(self, line: str, paths: list[Path]) -> str:
        """The first place in these files of the repository where a line is."""
        wanted = bare(line)
        if not wanted:
            return ""
        for path in paths:
            for number, written in enumerate(path.read_text().splitlines(), 1):
                if bare(written) == wanted:
                    return f"{path.relative_to(self.root)}:{number}"
        return ""

    def of_notebook(self, name: Path, line: int) -> str:
        """A place in a lesson's words; the cell of the notebook where the words are made."""
        own = self.root / "notebooks" / "src" / f"{name.stem}.md"
        if line < CELL:
            return str(own.relative_to(self.root) if own.exists() else name)
        cell = nbformat.read(self.pages / name, as_version=4).cells[line // CELL - 1]
        lines = cell.source.splitlines() or [""]
        others = sorted(own.parent.glob("*.md"))  # the workshop is made from all
        paths = [own] if own.exists() else others
        at = max(0, min(line % CELL - 2, len(lines) - 1))
        for candidate in (lines[at], lines[0]):
            place = self.find(candidate, paths)
            if place:
                return place
        kept = nbformat.read(self.root / name, as_version=4).cells
        numbers = [number for number, each in enumerate(kept, 1) if each.id == cell.id]
        return f"{name}, cell {numbers[0]}" if numbers else str(name)

    def of_error(self, name: Path) -> str:
        """The row of a table of errors that became a page."""
        title, *_ = headings((self.pages / name).read_text())
        for table in ("errors", "errors-quoted"):
            path = self.root / "assets" / f"{table}.md"
            for number, row in enumerate(path.read_text().splitlines(), 1):
                if row.startswith(f"| {title.text} |"):
                    return f"assets/{table}.md:{number}"
        return "assets/errors.md"

    def of(self, said: str) -> str:
        """The place in the repository for one that Sphinx says, such as `…/index.md:7`."""
        path, _, number = said.partition(":")
        line = int(number) if number.isdigit() else 0
        if not path.startswith(str(self.pages)):
            return said
        name = Path(path).relative_to(self.pages)
        if name.suffix == ".ipynb":
            return self.of_notebook(name, line)
        if name.parts[0] == "errors":
            return self.of_error(name)
        own = self.root / name
        if own.exists() and line:
            lines = (self.pages / name).read_text().splitlines()
            return self.find(lines[line - 1], [own]) or f"{name}:{line}"
        return f"{name} of the site, written by scripts/site_*.py"


class Faults:
    """Sphinx's stream of warnings: each becomes a fault, told once."""

    def __init__(self, places: Places):
        self.places = places
        self.all: list[Fault] = []

    def write(self, text: str) -> None:
        text = COLOUR.sub("", text).strip()
        if text.endswith("[toc.no_title]"):
            return  # refusals.py names the page without a title itself
        match = RECORD.match(text)
        if not match:
            if text:
                self.add(Fault("", text, link=False))
            return
        option = OPTION.match(match["text"])
        if option:
            remedy = "take it out of html_theme_options"
            self.add(Fault(CONF, f"the theme has no option {option['option']}: {remedy}", False))
            return
        place = self.places.of(match["place"] or "")
        nowhere = NOWHERE.search(match["text"])
        what = f"a link leads nowhere: {nowhere['target']}" if nowhere else match["text"]
        self.add(Fault(place, what, bool(nowhere)))

    def add(self, fault: Fault) -> None:
        """A lesson and its solved twin have the same words: what both say is one fault."""
        if fault not in self.all:
            self.all.append(fault)

    def flush(self) -> None:
        """Nothing waits."""
