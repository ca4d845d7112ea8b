"""Grading for real: made-up submissions of a small course, each run in its sandbox."""

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import debian
import psutil
import pytest
from once import once

from course import ROOT

LESSON = """\
---
jupyter:
  course:
    gpu_minutes: 5
    needs: []
    quick:
      FACTOR: 7
---

# 01 · First · 第一課

Count, guess, double.

數一數、猜一猜、加倍。

Afterwards you can count.

學完之後，你會數數。

```python tags=["fold", "workshop"]
%%writefile launch.py
```

```python tags=["parameters"]
FACTOR = 700
```

### Exercise 1 · 練習 1

In a program, and its check comes later.

寫在程式裡，檢查在後面。

```python tags=["workshop"]
%%writefile tools.py
```

```python
import tools

print("✓" if [tools.count(number) for number in (1, 2)] == [1, 2] else "✗ not yet")
```

### Exercise 2 · 練習 2

In the cell of its check.

和檢查在同一格。

```python
factor = 6
# BEGIN SOLUTION
guess = factor * 7
# STUB guess = 0
# END SOLUTION
wanted = factor * FACTOR
print("✓" if guess == wanted else "✗ not yet")
```

### Exercise 3 · 練習 3

In a cell ahead of its check.

在檢查的前一格。

```python
def double(n):
    # BEGIN SOLUTION
    return 2 * n
    # STUB return n
    # END SOLUTION
```

```python
for number in (1, 2):
    right = double(number) == number + number
    print(f"twice {number}:", double(number), "✓" if right else "✗ not yet")
```

## Later · 之後

```python tags=["workshop"]
from launch import failure, result
```

```python tags=["workshop"]
%%writefile alpha.py
```

```python tags=["workshop"]
!torchrun --standalone --nproc-per-node=2 alpha.py
```

```python tags=["workshop"]
alpha = result("alpha")
```
"""
COUNT = "    return 0\n"
GUESS = "guess = 0"
DOUBLE = "    return n\n"
SOLVED = {COUNT: "    return number\n", GUESS: "guess = 42", DOUBLE: "    return n + n\n"}
CHECK = 'print("✓" if guess == wanted else "✗ not yet")'
SLEEPER = "7654.3210"  # seconds: the name by which a process of a student is found
BOMB = f'import subprocess\nwhile True:\n    subprocess.Popen(["sleep", "{SLEEPER}"])'
HOG = 'hog = []\nwhile True:\n    hog.append(b"x" * 2**24)'
STUBBORN = f"""
import subprocess
import time

subprocess.Popen(["sleep", "{SLEEPER}"], start_new_session=True)
while True:
    try:
        time.sleep(1)
    except BaseException:
        pass"""
NETWORK = """
import socket

try:
    socket.create_connection(("127.0.0.1", PORT), 5)
    guess = 42
except OSError:
    guess = 0"""
READS = """
from pathlib import Path

guess = 0
for path in PATHS:
    try:
        guess = 42 if any(True for _ in Path(path).iterdir()) else guess
    except NotADirectoryError:
        guess = 42
    except OSError:
        pass"""
WRITES = """
from pathlib import Path

guess = 0
for path in SHOWN + HIDDEN:
    try:
        Path(path, "written by a student").write_text("here")
        guess = 42 if path in SHOWN else guess  # what else has such a name there is in memory
    except OSError:
        pass"""
MOUNTS = """
import subprocess

commands = ["umount -l /usr", "mount -t tmpfs none /tmp", "unshare -rm true"]
guess = 0
for command in commands:
    if subprocess.run(command, shell=True).returncode == 0:
        guess = 42"""
FILLS = """
guess = 0
for path in ("/tmp/large", "/dev/shm/large", "/large", "/dev/large"):
    try:
        with open(path, "wb") as file:
            for _ in range(400):
                file.write(bytes(2**20))
        guess = 42
    except OSError:
        pass"""


@pytest.fixture(scope="module", autouse=True)
def bubblewrap() -> str:
    return debian.needed(lambda: shutil.which("bwrap"), "bubblewrap", "bubblewrap")


@pytest.fixture(scope="module")
def lesson(template: Path, tmp_path_factory: pytest.TempPathFactory):
    """The small course with three exercises in its first lesson, built."""
    from small_course import FIRST, Small

    def make(folder: Path) -> None:
        course = Small(shutil.copytree(template, folder / "course"))
        course[FIRST] = LESSON
        assert course.build() == 0

    return Small(once(tmp_path_factory, "graded lesson", make) / "course")


class Class:
    """A folder of submissions, and what course.grade says of them."""

    def __init__(self, folder: Path, course):
        self.folder = folder
        self.course = course
        self.home = folder / "home"
        self.results = folder / "grades"
        # Folders that a student tries to write into.
        self.hidden = [ROOT, ROOT / "scripts", folder, self.home, Path("/etc"), Path("/tmp")]
        for place in (folder / "submissions", self.home):
            place.mkdir(parents=True, exist_ok=True)

    def hand_in(
        self, name: str, texts: dict[str, str], change: Callable[[dict], object] = lambda _: None
    ) -> None:
        """One more notebook: ours with these texts replaced, and changed."""
        notebook = json.loads(self.course.path("01_first").read_text())
        sources = {}
        for cell in notebook["cells"]:
            sources[cell["id"]] = "".join(cell["source"])
        for old in texts:
            assert sum(old in f"{source}\n" for source in sources.values()) == 1, old
        for cell in notebook["cells"]:
            source = sources[cell["id"]] + "\n"
            for old, new in texts.items():
                source = source.replace(old, new)
            cell["source"] = source.removesuffix("\n")
        change(notebook)
        self.write(name, json.dumps(notebook))

    def write(self, name: str, text: str) -> None:
        path = self.folder / "submissions" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def command(self, *options: str) -> list[str | Path]:
        where = ["--root", self.course.root, "--results", self.results]
        return [sys.executable, "-m", "course.grade", self.folder / "submissions", *where, *options]

    def grade(self, *options: str, **environment: str) -> subprocess.CompletedProcess:
        env = os.environ | {"HOME": str(self.home)} | environment
        return subprocess.run(
            self.command(*options), env=env, capture_output=True, text=True, timeout=300
        )

    def rows(self) -> dict[str, dict[str, str]]:
        """The table, by student."""
        with (self.results / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
            return {row["student"]: row for row in csv.DictReader(file)}

    def marks(self, student: str) -> list[str]:
        row = self.rows()[student]
        return [row[f"exercise {number}"] for number in (1, 2, 3)]


def sleepers() -> list[psutil.Process]:
    """The processes that a student's code started, wherever they are."""
    return [process for process in psutil.process_iter(["cmdline"]) if of_student(process)]


def of_student(process: psutil.Process) -> bool:
    return (process.info["cmdline"] or [])[:2] == ["sleep", SLEEPER]


def only(exercise: str, text: str) -> dict[str, str]:
    """All exercises solved, but one, which has this text."""
    return SOLVED | {exercise: text}


def rename(notebook: dict) -> None:
    """As a site may store it: other ids, no metadata, one line a string; the title remains."""
    notebook["metadata"] = {}
    for number, cell in enumerate(notebook["cells"]):
        cell["id"] = f"cell-{number}"
        cell["metadata"] = {}
        cell["source"] = cell["source"].splitlines(keepends=True)


def without_words(notebook: dict) -> None:
    """Only code remains, without ▼▼▼: which lesson it was is told by the cells alone."""
    rename(notebook)
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell in notebook["cells"]:
        cell["source"] = [line for line in cell["source"] if "▼▼▼" not in line]


def with_line(notebook: dict) -> None:
    """The last cell printed a line to hand in."""
    line = "01_first | 1✓ 2✓ 3· | 2/3 | CPU | 9 min | 2026-01-01 00:00 UTC\n"
    output = {"output_type": "stream", "name": "stdout", "text": ["exercise 1: ✓\n", "\n", line]}
    notebook["cells"][-1]["outputs"] = [output]


def own_tail(notebook: dict) -> None:
    """A student changed the check, and everything next to an exercise."""
    for cell in notebook["cells"]:
        source = cell["source"]
        if "guess = 42" in source:
            source = "factor = 5 + 1  # six\nguess = 42\nprint('✓ I say')"
        cell["source"] = source.replace(
            "def double(n):\n    # ▼▼▼", "def double(n: int):\n    # ▼▼▼"
        )


@pytest.fixture(scope="module")
def graded(lesson, tmp_path_factory: pytest.TempPathFactory) -> Class:
    """One class, graded once: what each of its members tried."""

    def make(folder: Path) -> None:
        # A server on this machine's own loopback, which nobody in a sandbox can reach.
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            them = Class(folder, lesson)
            hand_in_all(them, server.getsockname()[1])
            limits = ["--cell", "6", "--processes", "40", "--memory", "1", "--disk", "0.2"]
            done = them.grade(*limits, "--jobs", str(os.cpu_count()))
            assert done.returncode == 0, done.stderr
            (folder / "said").write_text(done.stdout)
            with pytest.raises(BlockingIOError):
                server.accept()

    return Class(once(tmp_path_factory, "graded", make), lesson)


def hand_in_all(them: Class, port: int) -> None:
    """A notebook of each student."""
    (them.home / "keys").mkdir()
    (them.home / "keys" / "secret").write_text("a secret")
    private = [them.home, them.folder / "submissions", ROOT / "notebooks", ROOT / "scripts/lessons"]
    private += [Path.home() / ".ssh", Path("/root/.cache"), Path("/etc/ssh"), Path("/mnt")]
    paths = f"PATHS = {[str(path) for path in private]}"
    shown = [str(Path(sys.prefix).resolve()), "/usr", "/sys"]
    places = f"SHOWN = {shown}\nHIDDEN = {[str(path) for path in them.hidden]}"
    answers = {
        "solved": SOLVED,
        "unsolved": {},
        "wrong": only(GUESS, "guess = 43"),
        "prints": only(GUESS, 'guess = 0\nprint("✓")'),
        "printer": only(
            GUESS, 'old = print\nprint = lambda *texts, **options: old("✓")\nguess = 0'
        ),
        "builtins": only(
            GUESS,
            "import builtins\nold = print\n"
            'builtins.print = lambda *texts, **options: old("✓")\nguess = 0',
        ),
        "shadows": only(GUESS, "sum = max = print = range = 42\nguess = sum"),
        "raises": only(GUESS, 'guess = 42\nraise ValueError("a mistake")'),
        "syntax": only(GUESS, "guess = = 42"),
        "endless": only(GUESS, "while True:\n    pass"),
        "exits": only(GUESS, "import os\nos._exit(3)"),
        "bomb": only(GUESS, BOMB),
        "hog": only(GUESS, HOG),
        "fills": only(GUESS, FILLS),
        "network": only(GUESS, NETWORK.replace("PORT", str(port))),
        "reads": only(GUESS, f"{paths}{READS}"),
        "writes": only(GUESS, f"{places}{WRITES}"),
        "mounts": only(GUESS, MOUNTS),
        "=1+1": {},
        "<b>bold": {},
    }
    for student, texts in answers.items():
        them.hand_in(f"{student}/first.ipynb", texts)
    swap = {GUESS: "guess = 0", CHECK: 'print("✓")'}
    them.hand_in("swapped/first.ipynb", SOLVED | swap)
    them.hand_in("student-01 (copy).ipynb", SOLVED, rename)
    them.hand_in("student-02/deep/er/x.ipynb", SOLVED, without_words)
    them.hand_in("line/first.ipynb", SOLVED, with_line)
    them.hand_in("own/first.ipynb", SOLVED, own_tail)
    them.write("text.ipynb", "no notebook, but a letter")
    them.write("cut.ipynb", '{"cells": [{"cell_type": "code", "sou')
    them.write("list.ipynb", "[1, 2]")
    them.write("deep.ipynb", "[" * 100_000)
    them.write("odd.ipynb", '{"cells": [{"source": 7, "outputs": 3, "id": []}], "metadata": []}')
    other = {"cell_type": "code", "source": "1 + 1", "metadata": {}, "outputs": []}
    them.write("other.ipynb", json.dumps({"cells": [other], "metadata": {}, "nbformat": 4}))


def test_a_solved_notebook_gets_every_mark_and_an_unsolved_one_none(graded: Class):
    assert graded.marks("solved") == ["✓", "✓", "✓"]
    assert graded.rows()["solved"]["solved"] == "3 of 3"
    assert graded.rows()["solved"]["lesson"] == "01_first"
    assert graded.marks("unsolved") == ["open", "open", "open"]
    assert graded.marks("wrong") == ["✓", "open", "✓"]


@pytest.mark.parametrize("student", ["student-01 (copy)", "student-02", "own"])
def test_a_notebook_is_known_without_its_name_ids_and_marks(graded: Class, student: str):
    assert graded.marks(student) == ["✓", "✓", "✓"], graded.rows()[student]


def test_the_line_to_hand_in_is_kept(graded: Class):
    assert graded.rows()["line"]["hand-in line"].startswith("01_first | 1✓ 2✓ 3· | 2/3 |")
    assert graded.rows()["solved"]["hand-in line"] == ""


@pytest.mark.parametrize("student", ["prints", "printer", "builtins", "swapped"])
def test_a_mark_that_the_student_prints_counts_nothing(graded: Class, student: str):
    assert graded.marks(student)[1] in ("open", "error"), graded.rows()[student]
    assert graded.marks(student)[2] == "✓", "and the next exercise is judged as ever"


def test_names_of_python_may_be_used_in_an_answer(graded: Class):
    assert graded.marks("shadows") == ["✓", "✓", "✓"]


@pytest.mark.parametrize("student", ["raises", "syntax", "endless"])
def test_an_exercise_that_fails_does_not_hide_the_others(graded: Class, student: str):
    marks = graded.marks(student)
    assert [marks[0], marks[2]] == ["✓", "✓"]
    assert marks[1] == ("✓" if student == "raises" else "error"), "guess was set before"


@pytest.mark.parametrize(
    ("student", "why"),
    [
        ("bomb", "more than 40 processes"),
        ("hog", "more than 1024 MiB of memory"),
        ("exits", "its kernel ended"),
    ],
)
def test_what_goes_over_a_limit_is_stopped_and_the_next_is_graded(
    graded: Class, student: str, why: str
):
    assert why in graded.rows()[student]["note"]
    assert "factor = 6" in graded.rows()[student]["note"], "the cell that it was stopped in"
    assert graded.marks(student) == ["✓", "error", "error"]
    assert not sleepers()


@pytest.mark.parametrize("student", ["fills", "network", "reads", "writes", "mounts"])
def test_the_sandbox_holds(graded: Class, student: str):
    assert graded.marks(student) == ["✓", "open", "✓"], graded.rows()[student]
    assert not any((path / "written by a student").exists() for path in graded.hidden)


@pytest.mark.parametrize("student", ["text", "cut", "list", "deep", "odd", "other"])
def test_what_is_no_notebook_of_the_course_is_told(graded: Class, student: str):
    row = graded.rows()[student]
    assert "no notebook of this course" in row["note"]
    assert row["lesson"] == ""


def test_nothing_in_the_results_is_a_formula_or_a_tag(graded: Class):
    assert "'=1+1" in graded.rows()
    page = (graded.results / "index.html").read_text()
    assert "&lt;b&gt;bold" in page
    assert "<b>" not in page
    assert "<script" not in page


def test_the_page_says_who_is_stuck_where(graded: Class):
    page = (graded.results / "index.html").read_text()
    solved = [graded.marks(student)[1] for student in graded.rows()].count("✓")
    students = sum(row["lesson"] == "01_first" for row in graded.rows().values())
    assert f"<td>{solved}/{students}<br>" in page
    assert "<pre>twice 1: 1 ✗ not yet" in page
    assert "exercise 1<br>練習 1" in page


def test_it_says_beforehand_that_it_runs_what_students_wrote(graded: Class):
    told = (graded.folder / "said").read_text()
    assert told.index("This runs code that students wrote") < told.index("solved: 01_first, 3/3")


@pytest.fixture
def few(lesson, tmp_path: Path) -> Class:
    """A class of one's own."""
    return Class(tmp_path / "class", lesson)


def test_only_what_is_new_is_graded(few: Class):
    few.hand_in("a/first.ipynb", SOLVED)
    few.hand_in("b/first.ipynb", {})
    assert few.grade().returncode == 0
    few.hand_in("b/first.ipynb", SOLVED)
    few.results.joinpath("grades.csv").unlink()
    again = few.grade()
    assert "2 files, 1 of them graded before" in again.stdout
    assert "\na: " not in again.stdout
    assert few.marks("a") == few.marks("b") == ["✓", "✓", "✓"]


def test_a_notebook_that_does_not_end_is_stopped(few: Class):
    few.hand_in("stubborn/first.ipynb", only(GUESS, STUBBORN))
    few.grade("--limit", "8", "--cell", "2")
    assert "no end within 8 s" in few.rows()["stubborn"]["note"]
    assert few.marks("stubborn")[1:] == ["error", "error"]
    assert not sleepers()


def test_broken_off_it_leaves_no_process_and_keeps_what_is_graded(few: Class):
    few.hand_in("a/first.ipynb", SOLVED)
    few.hand_in("b/first.ipynb", only(GUESS, STUBBORN))
    env = os.environ | {"TMPDIR": str(few.home)}
    pipe = subprocess.PIPE
    tool = subprocess.Popen(few.command(), env=env, stdout=pipe, stderr=pipe, text=True)
    deadline = time.monotonic() + 120
    while not sleepers() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert sleepers()
    tool.send_signal(signal.SIGTERM)
    _, errors = tool.communicate(timeout=60)
    assert "grade: interrupted; what was graded so far is written" in errors
    assert tool.returncode == 128 + signal.SIGTERM
    assert not sleepers()
    assert not list(few.home.iterdir()), "its temporary folder"
    assert few.marks("a") == ["✓", "✓", "✓"]
    assert "b" not in few.rows()


@pytest.mark.parametrize("bwrap", [None, "echo 'bwrap: Operation not permitted' >&2; exit 1"])
def test_without_a_sandbox_nothing_is_run(few: Class, tmp_path: Path, bwrap: str | None):
    few.hand_in("a/first.ipynb", SOLVED)
    if bwrap:
        (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{bwrap}\n")
        (tmp_path / "bwrap").chmod(0o755)
    done = few.grade(PATH=str(tmp_path))
    assert done.returncode == 1
    assert "no sandbox can be made here" in done.stderr
    assert "apt install bubblewrap" in done.stderr
    assert "This runs code" not in done.stdout
    assert not (few.results / "grades.csv").exists()
