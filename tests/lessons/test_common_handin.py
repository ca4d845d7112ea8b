"""handin.py in a real kernel: which checks count as solved, and what does not."""

import re
import shutil

import pytest
from nbformat.v4 import new_code_cell
from ranks import in_kernel

from course import rooms
from course.lesson import Cell

PLAIN = 'print("plain", "✓" if done else "✗ not yet")'
MANY = 'for part in parts:\n    print(part, "✓" if part else "✗ not yet")'
OWN = '# BEGIN SOLUTION\nx = 2\n# STUB x = 0\n# END SOLUTION\nprint("✓" if x == 2 else "✗ not yet")'
SHORT = 'print("✓" if good else "✗ not yet")'
LONG = f"good = True\n{SHORT}"


def check(cell: str) -> str:
    return Cell(new_code_cell(cell)).ending


CHECKS = {
    "1": [check(PLAIN)],
    "2": [check(MANY)],
    "3": [check(OWN)],
    "4": [check(PLAIN), check(MANY)],
    "5": [check(SHORT)],
    "6": [check(LONG)],
}
LAST = f'handin.line("06_ddp", {CHECKS})'


def exercise_3(answer: str) -> str:
    """The cell as a learner leaves it: in place of the stub, the answer."""
    return f'# ▼▼▼ your code here (1 line)\n{answer}\nprint("✓" if x == 2 else "✗ not yet")\n'


CASES = {
    "nothing run": ([], ""),
    "solved": (["done = 1", PLAIN, "parts = [1, 2]", MANY, exercise_3("x = 1 + 1")], "1234"),
    "a part is wrong": (["parts = [1, 0, 2]", MANY], ""),
    "one check of two": (["done = 1", PLAIN], "1"),
    "the newest counts": (
        ["done = 1", PLAIN, "done = 0", PLAIN, *map(exercise_3, ("x = 2", "x = 0", "x = 2"))],
        "3",
    ),
    "a check made easier": (['print("plain", "✓" if True else "✗ not yet")'], ""),
    "a mark printed beside it": (['print("✓")', "done = 0", PLAIN], ""),
    "a check that raises": (
        ["done = 1", PLAIN, "parts = [1]", MANY, "parts = map(int(6).__floordiv__, [3, 0])", MANY],
        "1",
    ),
    "the longer end": ([LONG], "6"),
    "the shorter end": (["good = 1", SHORT], "5"),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What handin.line prints after the cells of each case, all in one kernel."""
    folder = tmp_path_factory.mktemp("handin")
    for name in ("launch", "handin"):
        shutil.copy(rooms.program(name), folder)
    cells = ["import handin"]
    last: dict[str, int] = {}
    for name, (own, _) in CASES.items():
        cells += ["handin.ran.clear()", *own, LAST]
        last[name] = len(cells) - 1
    endings = in_kernel(folder, cells)
    assert all(endings[number][0] == "ok" for number in last.values()), endings
    return {name: endings[number][1] for name, number in last.items()}


@pytest.mark.parametrize("name", CASES)
def test_what_counts_as_solved(told: dict[str, str], name: str):
    solved = CASES[name][1]
    *rows, blank, last = told[name].splitlines()
    states = {number: number in solved for number in CHECKS}
    assert rows == [f"exercise {n}: {'✓' if state else 'open'}" for n, state in states.items()]
    assert blank == ""
    shown = " ".join(f"{n}{'✓' if state else '·'}" for n, state in states.items())
    name, marks, count, machine, minutes, when = last.split(" | ")
    assert (name, marks, count) == ("06_ddp", shown, f"{len(solved)}/6")
    assert machine == "CPU" or "×" in machine
    assert minutes in ("0 min", "1 min", "2 min")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", when)
