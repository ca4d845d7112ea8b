"""Where the lessons' programs are: a room a lesson, `lessons/09_faster`, and `lessons/common`.

A program is known by its stem alone (`ddp`), since in a notebook's folder all of them lie side by
side; several lessons write those of `common`.
"""

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from course import ROOT

LESSONS = ROOT / "scripts" / "lessons"
COMMON = "common"
KINDS = (".py", ".cpp", ".h", ".sh", ".yaml")  # what a room may hold

LEXERS = {".py": "ipython3", ".cpp": "cpp", ".h": "cpp", ".sh": "bash"}  # how a file is coloured


def lexer(name: str) -> str:
    """The name of the lexer that colours a file in a page."""
    return LEXERS.get(Path(name).suffix, "text")


def rooms(lessons: Path = LESSONS) -> list[Path]:
    """The folders that hold programs, sorted by name; `common` is the last."""
    return sorted(
        path for path in lessons.iterdir() if path.is_dir() and path.name != "__pycache__"
    )


def files(lessons: Path = LESSONS) -> list[Path]:
    """Everything that a lesson can write: Python programs, C++ and its headers, jobs, settings."""
    held = [path for room in rooms(lessons) for path in sorted(room.iterdir())]
    return [path for path in held if path.suffix in KINDS and not path.name.startswith(".")]


def programs(lessons: Path = LESSONS) -> list[Path]:
    """Every Python program of every room."""
    return [path for path in files(lessons) if path.suffix == ".py"]


def program(stem: str) -> Path:
    """The file of one program. KeyError names the program that no room holds."""
    for path in programs():
        if path.stem == stem:
            return path
    raise KeyError(f"no room in {LESSONS} holds {stem}.py")


def python_path() -> str:
    """A PYTHONPATH that lets tests and the bench start a program outside of a notebook."""
    return os.pathsep.join(map(str, rooms()))


def load(stem: str) -> ModuleType:
    """One lesson's program as a module, for a tool that uses what the lesson teaches."""
    if stem not in sys.modules:
        spec = importlib.util.spec_from_file_location(stem, program(stem))
        sys.modules[stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[stem])
    return sys.modules[stem]
