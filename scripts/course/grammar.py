"""The grammar of a lesson: the tags of its cells, and the marks of exercises in cells and programs.

`# BEGIN SOLUTION … # STUB line … # END SOLUTION` is an exercise, `# BEGIN LIVE …` one of the
workshop alone; a cell `%%writefile NAME.py` holds that program.
"""

import re

from nbformat import NotebookNode

from course import rooms

KINDS = "|".join(kind.removeprefix(".") for kind in rooms.KINDS)
# A file of a room, or a reference run of assets/, whose numbers a lesson draws.
WRITE = re.compile(rf"%%writefile (\w+\.(?:{KINDS})|[\w-]+\.json)$", re.MULTILINE)
# A region in a program or a cell; in C++ the marks stand behind // instead of #.
SOLUTION = re.compile(
    r"^ *(?P<mark>#|//) BEGIN (?P<kind>SOLUTION|LIVE)\n"
    r"(?P<lines>.*?)"
    r"^ *(?P=mark) END (?P=kind) *(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
STUB = re.compile(r"(?:#|//) STUB ?")
HERE = "▼▼▼ your code here"  # what a learner looks for in an unsolved exercise
STRAY = re.compile(r"(?:#|//) (?:(?:BEGIN|END) (?:SOLUTION|LIVE)|STUB)")

Cells = list[tuple[str, NotebookNode]]  # each with its place in the sources, for messages


class BuildError(Exception):
    """A source breaks the grammar; the message names the file, the place and the remedy."""


def demand(truth: object, place: str, otherwise: str) -> None:
    """Stop the build at a place in the sources, with what is wrong there, unless `truth` holds."""
    if not truth:
        raise BuildError(f"{place}: {otherwise}")


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def own(cells: Cells) -> Cells:
    """The cells of a lesson without those that only the workshop has."""
    return [pair for pair in cells if "class" not in tags(pair[1])]


def code_cells(cells: Cells) -> Cells:
    return [pair for pair in cells if pair[1].cell_type == "code"]


def about(notebook: NotebookNode) -> dict:
    """What the course records in a notebook: needs, GPU minutes, quick parameters, its last run."""
    return notebook.metadata.get("course", {})


def solve(source: str, solved: bool, place: str, live: bool = False) -> str:
    """Keep the solution, or put the stub (`# STUB …` lines of the same region) in its place.

    A region `LIVE` is an exercise of the workshop alone (`live`); the lessons have it whole.
    """

    def region(match: re.Match) -> str:
        solution, stub = [], []
        for line in match["lines"].splitlines():
            if STUB.match(line.lstrip()):
                stub.append(STUB.sub("", line, count=1))
            else:
                solution.append(line)
        demand(stub, place, "a solution without a `# STUB …` line: unsolved, it must still run.")
        if solved or (match["kind"] == "LIVE" and not live):
            return "\n".join(solution) + "\n"
        indent = re.match(" *", stub[0])[0]
        size = f"{len(solution)} line{'s' * (len(solution) != 1)}"
        return "\n".join([f"{indent}{match['mark']} {HERE} ({size})", *stub]) + "\n"

    built = SOLUTION.sub(region, source).rstrip("\n")
    marks = "BEGIN SOLUTION (or LIVE), STUB and END SOLUTION (or LIVE)"
    demand(not STRAY.search(built), place, f"{marks} do not belong together here.")
    return built
