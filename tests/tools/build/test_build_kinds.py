"""What a room may hold: a broken file of each kind is refused, and a program that is too long."""

import os
import shutil
from types import SimpleNamespace

import pytest
from small_course import ALPHA, FIRST, PROGRAM, ROOMS, Small, refused

from course.build import programs as kinds

pytestmark = pytest.mark.quick

TORCH = "#include <torch/headeronly/util/Half.h>\n\nfloat one() { return c10::Half(1.0f); }\n"
HEADER = "#pragma once\n\ninline int three() { return 3; }\n"
GOOD = {
    "three.h": HEADER,
    "two.cpp": '#include "three.h"\n\nint main() { return three(); }\n',
    "more.cpp": '#include <cstdio>\n\nint main() { std::puts("more"); }\n',
    "torch.cpp": TORCH,
    "job.sh": '#!/bin/bash\n#SBATCH --nodes=2\nif [ -n "$A" ]; then torchrun alpha.py; fi\n',
    "ds.yaml": "zero:\n  stage: 3\n",
}
BROKEN = {
    "C++": (
        "more.cpp",
        "<cstdio>\n",
        "<cstdio>\nint two = ;\n",
        "g++ refuses it:\n<stdin>:2:11: er",
    ),
    "header": ("three.h", "return 3;", "return tree;", "<stdin>:3:29: error: ‘tree’"),
    "C++ with torch": ("torch.cpp", "Half(", "Halve(", "‘Halve’ is not a member of ‘c10’"),
    "script": ("job.sh", "; fi", "", "bash refuses it:\nbash: line"),
    "YAML": ("ds.yaml", "zero:", "zero: [", "this is no YAML: while parsing a flow sequence"),
}
# Of these kinds, what a machine may lack that only corrects words.
# A contributor may lack a compiler; where CI is set, its absence is red.
LACKS = not shutil.which("g++") and "CI" not in os.environ
COMPILER = pytest.mark.skipif(LACKS, reason="not tried: there is no g++ here")
NEEDS = {"C++": COMPILER, "header": COMPILER, "C++ with torch": (COMPILER, pytest.mark.torch)}


def add(course: Small, name: str, text: str) -> str:
    """One more file in the room of lesson 01, which writes it; its path."""
    end = "```python\n# BEGIN"
    course.replace(FIRST, end, f"```python\n%%writefile {name}\n```\n\n{end}")
    path = f"{ROOMS}/01_first/{name}"
    course[path] = text
    return path


def test_a_notebook_writes_files_of_every_kind(course: Small):
    for name, text in GOOD.items():
        add(course, name, text)
    assert course.build() == 0
    for name, text in GOOD.items():
        assert f"%%writefile {name}\n{text}".rstrip("\n") in course.code()


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [pytest.param(*case, id=kind, marks=NEEDS.get(kind, ())) for kind, case in BROKEN.items()],
)
def test_a_broken_file_is_refused(course: Small, capsys, name, old, new, message):
    path = add(course, name, GOOD[name])
    course.replace(path, old, new)
    refused(course, capsys, message)
    assert course.build() == 1
    assert path in capsys.readouterr().err


@COMPILER
def test_a_stub_in_error_is_refused_in_every_kind(course: Small, capsys):
    marks = ["// BEGIN SOLUTION", "int two = 2;", "// STUB int two = ;", "// END SOLUTION", ""]
    path = add(course, "more.cpp", "\n".join(marks))
    refused(course, capsys, f"{path}: g++ refuses it:\n<stdin>:2:11: error: expected primary")
    course.replace(path, "two = ;", "two = 0;")
    assert course.build() == 0
    assert "%%writefile more.cpp\n// ▼▼▼ your code here (1 line)\nint two = 0;" in course.code()
    assert "%%writefile more.cpp\nint two = 2;" in course.code("solutions/01_first")


@COMPILER
def test_without_a_compiler_cpp_is_not_checked_and_the_build_says_so(
    course: Small, capsys, monkeypatch, tmp_path
):
    path = add(course, "more.cpp", "int two = ;\n")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        assert course.build() == 0
    line = f"{path}: not checked, since there is no g++ on this machine\n"
    assert line in capsys.readouterr().out
    assert course.build() == 1  # nothing that was not checked counts as accepted


@COMPILER
@pytest.mark.torch
def test_without_torch_what_includes_it_is_not_checked_and_the_build_says_so(
    course: Small, capsys, monkeypatch
):
    path = add(course, "torch.cpp", TORCH)
    with monkeypatch.context() as patch:
        patch.setattr(kinds, "find_spec", lambda name: None)
        assert course.build() == 0
        assert f"{path}: not checked, since there is no torch on this" in capsys.readouterr().out
        patch.undo()
        patch.setattr(kinds, "sysconfig", SimpleNamespace(get_path=lambda name: "/nowhere"))
        assert course.build() == 0
        assert "since there is no /nowhere/Python.h on this" in capsys.readouterr().out
    monkeypatch.setattr(kinds, "check_cpp", lambda text, name, room: 1 / 0)
    monkeypatch.setitem(kinds.CHECKS, ".cpp", kinds.check_cpp)
    with pytest.raises(ZeroDivisionError):  # what was not checked does not count as accepted
        course.build()


@COMPILER
def test_what_the_compiler_accepted_is_not_compiled_again(course: Small, capsys, monkeypatch):
    path = add(course, "more.cpp", GOOD["more.cpp"])
    assert course.build() == 0
    monkeypatch.setattr(kinds, "check_cpp", lambda text, name, room: 1 / 0)
    monkeypatch.setitem(kinds.CHECKS, ".cpp", kinds.check_cpp)
    assert course.build("--check") == 0
    course.replace(path, "more", "less")
    with pytest.raises(ZeroDivisionError):
        course.build()


@COMPILER
def test_a_source_is_compiled_again_when_its_header_changes(course: Small, capsys):
    header = add(course, "three.h", HEADER)
    path = add(course, "two.cpp", GOOD["two.cpp"])
    assert course.build() == 0
    course.replace(header, "three()", "four()")
    assert course.build() == 1  # it only remembers that the header itself is accepted
    assert f"{path}: g++ refuses it:" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["json", "pytest", "nbformat"])
def test_a_program_that_hides_a_module_is_refused(course: Small, capsys, module: str):
    path = add(course, f"{module}.py", "x = 1\n")
    refused(course, capsys, f"{path}: it hides the module `{module}` from every rank: choose")


def test_a_program_may_have_120_lines_without_its_docstring_and_empty_ones(course: Small, capsys):
    docstring = '"""Count alone."""'
    more = 120 - len([line for line in ALPHA.splitlines() if line and line != docstring])
    course[PROGRAM] = ALPHA.replace("    print(total)\n", "    print(total)\n\n" * (more + 1))
    course.replace(PROGRAM, docstring, '"""Count alone.\n\nFor ever.\n"""')
    assert course.build() == 0
    course.replace(PROGRAM, "@record\n", "# One line more.\n@record\n")
    remedy = "121 lines; a program may have 120, its docstring and empty lines not counted."
    refused(course, capsys, f"{PROGRAM}: {remedy}")


def test_only_the_solved_program_is_counted(course: Small):
    lines = [
        "# BEGIN SOLUTION",
        *["print(1)"] * 120,
        *["# STUB print(0)"] * 9,
        "# END SOLUTION",
        "",
    ]
    add(course, "long.py", "\n".join(lines))
    assert course.build() == 0


def test_a_notebook_writes_the_numbers_of_a_kept_run(course: Small):
    course["assets/race-2-cores.json"] = '{"rows": []}\n'
    course.replace(
        FIRST,
        "```python\n# BEGIN",
        "```python\n%%writefile race-2-cores.json\n```\n\n```python\n# BEGIN",
    )
    assert course.build() == 0
    assert '%%writefile race-2-cores.json\n{"rows": []}' in course.code()
