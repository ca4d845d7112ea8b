"""Every program: by itself, in its room, and in the lessons that write it; which lessons one needs.

A room may hold Python, C++, shell and YAML; each kind has a check of its own.
"""

import ast
import re
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

import yaml

from course import rooms, same
from course.lesson import Lesson, about, demand, solve
from course.sources import Course

# ---- by itself


LINES = 120  # of a solved program, its docstring and empty lines not counted
# A header that comes with torch.
TORCHS = re.compile(r"^ *# *include *[<\"](?:torch|ATen|c10|pybind11)/", re.MULTILINE)
OWN = re.compile(r'^ *# *include *"(\w+\.(?:h|cpp))"', re.MULTILINE)  # a file of the same room


def check_python(text: str, name: str) -> None:
    """SyntaxError names the file and the line."""
    stem = Path(name).stem
    installed = PathFinder.find_spec(stem, [sysconfig.get_path("purelib")])
    hidden = stem in sys.stdlib_module_names or installed
    remedy = f"it hides the module `{stem}` from every rank: choose another name."
    demand(not hidden, name, remedy)
    ast.parse(text, name)


def ask(command: list[str], text: str, name: str) -> None:
    """Let another program check a text, given as its input; where it is not installed, say so."""
    if not shutil.which(command[0]):
        print(f"{name}: not checked, since there is no {command[0]} on this machine")
        return
    answer = subprocess.run(command, input=text, capture_output=True, text=True)
    demand(answer.returncode == 0, name, f"{command[0]} refuses it:\n{answer.stderr.strip()}")


def with_headers(text: str, room: Path) -> str:
    """A C++ text, and behind it the room's own files that it includes, each once."""
    texts = {"": text}
    names = OWN.findall(text)
    for name in names:  # grows while we walk: headers include headers
        if name not in texts and (room / name).exists():
            texts[name] = (room / name).read_text()
            names += OWN.findall(texts[name])
    return "\n".join(texts.values())


def lacking(text: str, room: Path) -> str:
    """What this machine lacks to check a C++ text, "" if nothing."""
    if not shutil.which("g++"):
        return "g++"
    if not TORCHS.search(with_headers(text, room)):
        return ""
    if not find_spec("torch"):
        return "torch"
    python = Path(sysconfig.get_path("include"), "Python.h")
    return "" if python.exists() else str(python)


def check_cpp(text: str, name: str, room: Path) -> None:
    """A source or a header; what it includes in quotes is beside it in its room."""
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-iquote{room}", "-x", "c++"]
    if name.endswith(".h"):
        text = text.replace("#pragma once", "", 1)  # g++ warns of it outside of a header
    if TORCHS.search(with_headers(text, room)):
        headers = Path(find_spec("torch").origin).parent / "include"
        api = headers / "torch" / "csrc" / "api" / "include"
        command += [f"-I{folder}" for folder in (headers, api, sysconfig.get_path("include"))]
    ask([*command, "-"], text, name)


def check_shell(text: str, name: str) -> None:
    ask(["bash", "-n"], text, name)


def check_yaml(text: str, name: str) -> None:
    try:
        list(yaml.safe_load_all(text))  # one file may hold several documents
    except yaml.YAMLError as error:
        demand(False, name, f"this is no YAML: {error}")


CHECKS = {
    ".py": check_python,
    ".cpp": check_cpp,
    ".h": check_cpp,
    ".sh": check_shell,
    ".yaml": check_yaml,
}


def length(text: str, name: str) -> int:
    """The lines of a program that count: without its docstring and empty ones."""
    lines = text.splitlines()
    if name.endswith(".py"):
        tree = ast.parse(text, name)
        if ast.get_docstring(tree) is not None:
            del lines[tree.body[0].lineno - 1 : tree.body[0].end_lineno]
    return sum(bool(line.strip()) for line in lines)


def check_kind(course: Course, path: Path) -> None:
    """Check a file of a room in every form in which a notebook may write it."""
    name = course.name(path)
    source = path.read_text()
    solved = solve(source, True, name)
    texts = {solved, solve(source, False, name), solve(source, False, name, live=True)}
    for text in sorted(texts):
        check_once(course, path, text)
    lines = length(solved, name)
    allowed = f"a program may have {LINES}, its docstring and empty lines not counted."
    demand(lines <= LINES, name, f"{lines} lines; {allowed}")


def check_once(course: Course, path: Path, text: str) -> None:
    """g++ reads torch's headers for half a minute: build/checked remembers what it accepted."""
    check = CHECKS[path.suffix]
    name = course.name(path)
    if check is not check_cpp:
        check(text, name)
        return
    room = path.parent
    missing = lacking(text, room)
    if missing:
        print(f"{name}: not checked, since there is no {missing} on this machine")
        return
    digest = same.letters(with_headers(text, room))
    accepted = course.root / "build" / "checked" / digest
    if not accepted.exists():
        check(text, name, room)
        with suppress(OSError):  # a folder that cannot be written to costs time, no more
            accepted.parent.mkdir(parents=True, exist_ok=True)
            accepted.touch()


# ---- rooms, and which lessons a lesson needs


LAUNCHED = (".py", ".cpp", ".sh")  # `result("ddp")` knows them without their ending


def check_names(course: Course) -> None:
    """No two files of one name: in a notebook's folder all of them lie side by side."""
    seen: dict[str, Path] = {}
    for path in rooms.files(course.lessons):
        name = path.stem if path.suffix in LAUNCHED else path.name
        first = seen.setdefault(name, path)
        remedy = f"{course.name(first)} has the same name, and in a notebook's folder they meet."
        demand(first is path, course.name(path), f"{remedy} Rename one.")


def writers(course: Course) -> dict[str, list[str]]:
    """For each file that a `%%writefile` cell names, the lessons that write it."""
    lessons: dict[str, list[str]] = {}
    for path, source in course.sources.items():
        for name in Lesson.of(source).files:
            lessons.setdefault(name, []).append(path.stem)
    return lessons


def check_rooms(course: Course) -> None:
    """A lesson writes every program of its room, and no other lesson does; common/ has the rest."""
    lessons = writers(course)
    home = course.name(course.lessons)
    for path in rooms.files(course.lessons):
        place = course.name(path)
        room = path.parent.name
        written = lessons.get(path.name, [])
        remedy = f"no lesson writes it: delete it, or write it in a cell `%%writefile {path.name}`."
        demand(written, place, remedy)
        if room == rooms.COMMON:
            remedy = f"only {written[0]} writes it: move it to {home}/{written[0]}."
            demand(len(written) > 1, place, remedy)
            continue
        others = ", ".join(lesson for lesson in written if lesson != room)
        to = written[0] if len(written) == 1 else rooms.COMMON
        remedy = f"its own lesson does not write it, but {others} does: move it to {home}/{to}."
        demand(room in written, place, remedy)
        demand(not others, place, f"{others} writes it, too: move it to {home}/{rooms.COMMON}.")


def check_programs(course: Course) -> None:
    """Check every file of every room by itself."""
    check_names(course)
    for path in rooms.files(course.lessons):
        check_kind(course, path)


def check_needs(course: Course) -> None:
    """Every lesson says which earlier lessons one must know for it."""
    numbers = [path.stem[:2] for path in course.sources]
    for path, source in course.sources.items():
        place = course.name(path)
        needs = about(source).get("needs")
        given = isinstance(needs, list) and all(isinstance(number, str) for number in needs)
        example = '`needs: ["05"]`, or `needs: []`'
        demand(given, place, f"name in its front matter the lessons to know first: {example}.")
        for number in needs:
            problem = f"it needs lesson {number}, which does not"
            demand(number in numbers, place, f"{problem} exist: correct `needs`.")
            earlier = number < path.stem[:2]
            demand(earlier, place, f"{problem} come before it: correct `needs`.")
