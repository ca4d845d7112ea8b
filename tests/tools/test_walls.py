"""The tools' house: few rooms, imports only run down, none between two commands; one definition of
each noun.
"""

import ast
from pathlib import Path

import pytest

from course import ROOT

pytestmark = pytest.mark.quick

COURSE = ROOT / "scripts" / "course"
COMMANDS = ("build", "run", "site", "grade", "kaggle", "measure")
# What several commands need, each resting on those before it alone.
SHARED = ("rooms", "same", "languages", "launches", "lesson", "processes", "machine", "files")
SHARED += (
    "report",
    "listed",
    "filled",
    "outputs",
    "sources",
    "exam",
    "forked",
    "evidence",
    "facts",
)
LARGEST = 10  # files of Python in one room, beside __init__.py
# A piece of text by which something is known, and the one file of the tools that holds it. What
# travels without the tools (launch.py, handin.py) or runs ahead of them has its own.
NOUNS = {
    "hashlib": "same.py",
    "%%writefile (": "lesson.py",
    '("%%writefile': "sources.py",  # refuses what is like it
    "BEGIN (?P<kind>SOLUTION": "lesson.py",
    "^(#+)": "lesson.py",
    "^#+": "",
    "Exercise (\\d+) · ": "lesson.py",
    "Exercise \\d+": "site/extensions/lessons.py",  # in a page of Sphinx, which has no cells
    "✗ not yet": "lesson.py",
    "\\u3400-\\u9fff": "languages.py",
    "!torchrun .*": "",
    "your code here": "lesson.py",
    'get("tags"': "lesson.py",
    '"metadata"].get("course"': "lesson.py",
    "```diff *": "lesson.py",
    "**Predict": "lesson.py",
    '"printed", "failure"': "launches.py",
}


def room(module: str) -> str:
    """The room or the shared module of `course.build.pages`: build."""
    return module.split(".")[1]


def imported(path: Path) -> set[str]:
    """The rooms and shared modules that a file imports, its own apart."""
    own = path.relative_to(COURSE).with_suffix("").parts[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "course":
            found |= {f"course.{alias.name}" for alias in node.names if alias.name != "ROOT"}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module[:7] == "course.":
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name[:7] == "course."}
    return {room(module) for module in found} - {own}


def wrong(own: str, others: set[str]) -> set[str]:
    """The imports that run up, or from one command to another."""
    below = SHARED if own in COMMANDS else SHARED[: SHARED.index(own)]
    return others - set(below)


# Of these no test may have a pattern of its own.
PIECES = ("!torchrun", "^#+", "^#{", "%%writefile", "BEGIN SOLUTION", "Exercise (")
TESTS = sorted((ROOT / "tests").rglob("*.py"))
FILES = [path for path in sorted(COURSE.rglob("*.py")) if path.name != "__init__.py"]
FILES += sorted(COURSE.glob("*/__init__.py"))


def test_every_room_is_known() -> None:
    there = {path.relative_to(COURSE).with_suffix("").parts[0] for path in FILES}
    assert there == {*COMMANDS, *SHARED}
    beside = {path.name for path in COURSE.parent.iterdir() if path.name != "__pycache__"}
    assert beside == {"course", "lessons"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(COURSE)))
def test_imports_run_down_and_never_from_command_to_command(path: Path) -> None:
    own = path.relative_to(COURSE).with_suffix("").parts[0]
    assert wrong(own, imported(path)) == set()


def test_an_arrow_that_runs_up_is_seen() -> None:
    assert wrong("site", {"sources", "build"}) == {"build"}
    assert wrong("lesson", {"rooms", "sources"}) == {"sources"}


def test_no_room_is_crowded() -> None:
    rooms = {path.parent for path in FILES} - {COURSE}
    sizes = {str(each.relative_to(COURSE)): len(list(each.glob("[!_]*.py"))) for each in rooms}
    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}


def patterns(source: str) -> set[str]:
    """The texts that a piece of Python hands to a function of `re`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
            texts = [part for part in node.args if isinstance(part, ast.Constant)]
            found |= {text.value for text in texts[:1] if isinstance(text.value, str)}
    return found


def of_nouns(source: str) -> set[str]:
    """The patterns in a piece of Python by which a noun would be known once more."""
    return {text for text in patterns(source) if any(piece in text for piece in PIECES)}


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT / "tests")))
def test_tests_ask_the_package(path: Path) -> None:
    assert of_nouns(path.read_text()) == set()


def test_a_second_pattern_is_seen() -> None:
    assert of_nouns('x = re.findall(r"^#+ (.*)", prose)') == {"^#+ (.*)"}
    assert of_nouns('x = re.compile(r"!torchrun .*?(\\w+)")') and not of_nouns(
        're.sub(r"a", "", b)'
    )


@pytest.mark.parametrize("text", NOUNS)
def test_a_noun_has_one_definition(text: str) -> None:
    holding = {str(path.relative_to(COURSE)) for path in FILES if text in path.read_text()}
    assert holding == ({NOUNS[text]} if NOUNS[text] else set())
