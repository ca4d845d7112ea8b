"""What was green on this machine is not tried again while nothing of what runs has changed.

build/green.json tells for each such test of what it was made when it passed. That counts only while
all of it is the same by course.same, and never where the environment variable CI is set. To try
everything: delete that file. A test says on what it rests by a mark, `rests_on(by=function)`:
called with the test's parameters, it gives what `same.digest` takes. No mark is needed by a
lesson's own tests, test_06_ddp.py, which rest on their programs, and by those in WORDLESS and
OF_CODE.
"""

import ast
import functools
import json
import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path

import nbformat
import pytest

from course import rooms, same
from course.build.python import imports
from course.files import write
from course.lesson import SOLUTION, about, files_of
from course.machine import processor

ROOT = Path(__file__).resolve().parents[1]
GREEN = ROOT / "build" / "green.json"
SKIPPED = "green before"
MADE_OF = "made of"  # under this name a test's hash travels with its report
PROGRAM = re.compile(r"(\w+)\.(?:py|cpp|h|sh|yaml)\b")
A_LESSONS_OWN = re.compile(r"test_(\d\d|common)_\w+\.py")
# Tests of tools, and of the slides in a browser, that look at no lesson's words.
WORDLESS = ["bench", "pairs", "build_exercises", "build_kinds"]
WORDLESS += ["build_languages", "build_launches", "build_outputs", "build_programs", "build_rooms"]
WORDLESS += ["build_refusals", "build_routes", "build_workshop", "check_style", "conftest"]
WORDLESS += ["publish", "run", "run_alt", "run_forked", "run_processes", "same", "site_build"]
WORDLESS += ["speedrun", "deck_editing", "deck_keys", "deck_looks", "faults"]
# Those that also look at the code of all notebooks, and at their headings, from which ids come.
OF_CODE = ["build", "grade", "grade_parts", "kaggle"]
# What runs a notebook or launches ranks, and what judges them.
COURSE = ROOT / "scripts" / "course"
SHARED = ("__init__", "files", "launches", "machine", "processes")
TOOLS = [COURSE / f"{name}.py" for name in SHARED]
TOOLS += [path for folder in ("run", "forked") for path in sorted((COURSE / folder).glob("*[!_]"))]
TOOLS += sorted((ROOT / "tests" / "programs").glob("*.py"))
TOOLS += [ROOT / "tests" / "lessons" / name for name in ("ranks.py", "slices.py", "whole.py")]


def packages() -> list[str]:
    """Every installed package with its version, as `pip freeze` lists them."""
    installed = metadata.distributions()
    return sorted({f"{each.name}=={each.version}" for each in installed})


def machine() -> list[str]:
    """What tells this machine from others, and its GPUs. (`make check` has no torch to ask.)"""
    path = Path("/etc/machine-id")
    number = path.read_text().strip() if path.exists() else ""
    gpus = sorted(gpu.read_text() for gpu in Path("/proc/driver/nvidia").glob("gpus/*/information"))
    return [number or platform.node(), processor(), str(os.cpu_count()), *gpus]


@functools.cache
def surroundings() -> str:
    """What all tests share: tools, packages, Python, machine."""
    return same.digest([same.file(path) for path in TOOLS], packages(), sys.version, machine())


def cell(source: str) -> str:
    """What of a cell runs; of one that writes a program, that program's statements."""
    if SOLUTION.search(source):  # its marks are comments, and tests use what is between them
        return source
    rows = []
    for name, text in files_of(source).items():
        rows.append(f"{name}\n{same.code(text) if name.endswith('.py') else text}")
    return "\n".join(rows) or same.cell(source)


def notebook(path: Path) -> list:
    """What a run of this notebook rests on."""
    read = nbformat.read(path, as_version=4)
    code = [each for each in read.cells if each.cell_type == "code"]
    cells = [[cell(each.source), each.metadata.get("tags")] for each in code]
    return [cells, about(read).get("quick")]


@functools.cache
def ours() -> dict[str, Path]:
    """Name → file of all that tests import or launch."""
    tests = ROOT / "tests"
    paths = [*rooms.files(), *tests.glob("*.py")]
    for folder in ("campaigns", "lessons", "programs"):
        paths += (tests / folder).glob("*.py")
    tools = {}
    for path in COURSE.rglob("*.py"):
        parts = path.relative_to(COURSE.parent).with_suffix("").parts
        tools[".".join(parts).removesuffix(".__init__")] = path
    return tools | {path.stem: path for path in paths}


def of_course(code: ast.AST) -> set[str]:
    """What a piece of code imports of the course's tools, `course.build.pages` say."""
    found = set()
    for node in ast.walk(code):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("course."):
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@functools.cache
def named(path: Path) -> set[Path]:
    """The files of ours that a Python file imports or launches; of a test, also `"ddp"` alone."""
    code = ast.parse(path.read_text())
    names = imports(code) | of_course(code)
    for node in ast.walk(code):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if path.name.startswith("test_"):
                names.add(node.value)
            if "\n" not in node.value:  # no docstring, which tells how to launch
                names |= set(PROGRAM.findall(node.value))
    return {ours()[name] for name in names if name in ours()}


@functools.cache
def runs(path: Path) -> list[str]:
    return same.file(path)


@functools.cache
def tests_of(path: Path) -> list:
    """On what a lesson's tests rest: its cells that run, its programs, and others that they name.

    The tests of shared programs rest on all programs: some look at every one.
    """
    known: set[Path] = set()
    waiting = {path}
    while waiting:
        file = waiting.pop()
        known.add(file)
        if file.suffix == ".py":
            waiting |= named(file) - known
    room = A_LESSONS_OWN.fullmatch(path.name)[1]
    shared = room == "common"
    known |= {file for file in rooms.files() if shared or file.parent.name.startswith(room)}
    cells = []
    for lesson in (ROOT / "notebooks" / "src").glob(f"{room}_*.md"):
        cells += re.findall(r"^```python.*?^```$", lesson.read_text(), re.MULTILINE | re.DOTALL)
    return [[runs(file) for file in sorted(known)], cells]


@functools.cache
def of_tools() -> list:
    """On what WORDLESS rests: all tools, the programs that lessons share, slides, their tests."""
    scripts = ROOT / "scripts"
    paths = [path for path in scripts.rglob("*") if scripts / "lessons" not in path.parents]
    paths += (scripts / "lessons" / "common").iterdir()
    for folder in (ROOT, ROOT / "assets"):
        paths += [path for path in folder.iterdir() if path.suffix != ".md"]
    for folder in ("", "campaigns", "pages", "programs"):
        paths += (ROOT / "tests" / folder).iterdir()
    paths += (ROOT / "tests" / "tools").rglob("*")
    files = {path for path in paths if path.is_file() and "__pycache__" not in path.parts}
    return [runs(path) for path in sorted(files)]


@functools.cache
def of_code() -> list:
    """On what OF_CODE rests."""
    made = []
    for path in sorted((ROOT / "notebooks").glob("**/*.ipynb")):
        ids = [cell.id for cell in nbformat.read(path, as_version=4).cells]
        made.append([path.name, ids, notebook(path)])
    return [of_tools(), made]


# ---- the memory


def made_of(item: pytest.Item) -> str:
    """A hash of all on which a test rests; "" if it is always run."""
    if os.environ.get("CI"):
        return ""
    mark = item.get_closest_marker("rests_on")
    if mark:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        parts = mark.kwargs["by"](**parameters)
        return same.digest(surroundings(), runs(item.path), parts)
    if item.path.parent.name == "lessons" and A_LESSONS_OWN.fullmatch(item.path.name):
        return same.digest(surroundings(), tests_of(item.path))
    name = item.path.stem.removeprefix("test_")
    if name in WORDLESS:
        return same.digest(surroundings(), of_tools())
    if name in OF_CODE:
        return same.digest(surroundings(), of_code())
    return ""


def known() -> dict[str, str]:
    return json.loads(GREEN.read_text()) if GREEN.exists() else {}


def before(nodeid: str) -> str:
    """Of what a test was made when it was last green; "" if it never was."""
    return known().get(nodeid, "")


def remember(nodeid: str, made_of: str) -> None:
    GREEN.parent.mkdir(exist_ok=True)
    write(GREEN, json.dumps(known() | {nodeid: made_of}, indent=1, ensure_ascii=False) + "\n")


def forget(nodeid: str) -> None:
    """A test is red, perhaps only in what came after it."""
    there = known()
    if there.pop(nodeid, ""):
        write(GREEN, json.dumps(there, indent=1, ensure_ascii=False) + "\n")


def left_out(reports: list) -> str:
    """One line that tells how much was not tried again; "" if all was."""
    tests = [each.nodeid for each in reports if is_green_before(each)]
    files = {nodeid.partition("::")[0] for nodeid in tests}
    lessons = {number for nodeid in tests for number in re.findall(r"(?<!\d)\d\d(?=_)", nodeid)}
    if not tests:
        return ""
    what = f"{len(tests)} tests of {len(files)} files, {len(lessons)} lessons, {SKIPPED}"
    return f"{what}, and not tried again (to try all: rm {GREEN.relative_to(ROOT)})"


def is_green_before(report: object) -> bool:
    """Whether a test was left out by us, not by a skip of its own."""
    reason = getattr(report, "longrepr", None)
    return isinstance(reason, (list, tuple)) and reason[2].endswith(SKIPPED)
