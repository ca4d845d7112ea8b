"""The parts of course.run, each called alone."""

import json
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from course import machine
from course.machine import CALM, wait_until_calm
from course.processes import Work
from course.run import execute
from course.run.notebook import NOTEBOOKS, Run, ranks_lines
from course.run.notebooks import choose
from course.run.outputs import SHORTENED, budget, index, merged

RUN = ["-m", "course.run.notebooks"]
LAUNCH = "!torchrun --standalone --nproc-per-node=2 hang.py"
WORK = Work("COURSE_TEST", "a mark", Path())

# ---- what failed, and where


def test_after_a_failed_launch_the_ranks_own_message_is_told(tmp_path):
    printed = ["rank 0 begins\n", *["a step\n"] * 30, "\x1b[31mValueError: the cause\x1b[0m\n"]
    printed.append("E1121 03:43:28 failed (exitcode: 1)\n")
    launch = new_code_cell(LAUNCH, outputs=[new_output("stream", text="".join(printed))])
    reason = "hang.py failed (exit code 1)."
    error = new_output("error", ename="LaunchError", evalue=reason, traceback=[])
    reading = new_code_cell('run = result("hang")\nrun', outputs=[error])
    for cell in (launch, reading):
        cell.metadata["papermill"] = {"start_time": "2026-01-01"}
    nbformat.write(new_notebook(cells=[launch, reading]), tmp_path / "executed.ipynb")
    run = Run(Path("hang.ipynb"), tmp_path, WORK, "0-", 30, {})
    run.diagnose([])
    told = run.problem.splitlines()
    assert told[0] == 'in cell 2: run = result("hang")'
    assert told[-3:] == ["a step", "ValueError: the cause", reason]
    assert len(told) == 21


def test_after_a_failed_forked_launch_torchruns_word_for_the_rank_is_told():
    place = "E1122 08:41:54.799000 6166 torch/distributed/elastic/multiprocessing/api.py:836]"
    report = ["failed (exitcode: 1)", "", "-- Process 1 terminated with the following error:"]
    report += ["Traceback (most recent call last):", "ValueError: the cause", "", "the end"]
    lines = ["rank 0 begins", *[f"{place} {line}".rstrip() for line in report], "torchrun FAILED"]
    text = "\r\n".join(lines)
    launch = new_code_cell(LAUNCH, outputs=[new_output("stream", text=text)])
    assert ranks_lines([launch]) == ["rank 0 begins", *report[2:5]]


# ---- what to run


def test_choosing_lessons():
    lessons = sorted(NOTEBOOKS.glob("*.ipynb"))
    solutions = sorted(NOTEBOOKS.glob("solutions/*.ipynb"))
    assert list(choose([])) == list(choose([""])) == lessons
    assert list(choose(["solutions/"])) == solutions
    assert list(choose(["", "solutions/"])) == lessons + solutions
    path = lessons[0]
    number = path.name[:2]
    for names in ([number], [str(path)], [number, str(path)]):
        assert list(choose(names)) == [path]
    assert list(choose([f"solutions/{number}"])) == [path.parent / "solutions" / path.name]


def test_unusable_input_is_told_in_one_line(tmp_path):
    for name, text in {"text": "not a notebook", "shape": "{}", "list": "[]"}.items():
        (tmp_path / f"{name}.ipynb").write_text(text)
    good = tmp_path / "good.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("1")]), good)
    cases = [
        ([*RUN, "99"], "no lesson begins with “99”", "03_"),
        ([*RUN, tmp_path / "text.ipynb"], "text.ipynb", "make build"),
        ([*RUN, tmp_path / "shape.ipynb"], "shape.ipynb", "make build"),
        ([*RUN, tmp_path / "list.ipynb"], "list.ipynb", "make build"),
        ([*RUN, good, "--executed", good], "good.ipynb", "--executed"),
    ]
    for command, *expected in cases:
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1, done.stderr
        for text in expected:
            assert text in done.stderr


# ---- what goes back into the repository


def test_a_table_of_errors_links_the_lesson():
    table = "| error | section | remedy |\n| --- | --- | --- |\n"
    table += "| `a [0]` | One at a time | mend it · 修好 |"
    data = [{"output_type": "stream", "text": "x"}, {"data": {"text/markdown": [table]}}]
    prose = {"cell_type": "markdown", "metadata": {}, "source": ["## One at a time · 一"]}
    code = {"metadata": {"tags": ["index"]}, "source": [], "outputs": data}
    linked = "| `a [0]` | [One at a time](12_x.ipynb) | mend it · 修好 |"
    assert index([prose, code], "12_x").splitlines()[2:] == [linked]
    assert index([prose], "12_x") == ""


def test_the_rows_of_one_lesson_take_the_place_of_its_own():
    """Lessons in order; what names no cause comes last."""
    head = "| error | section | remedy |\n| --- | --- | --- |\n"
    late = "| `end` | [Z](12_x.ipynb) | ↑ look further up · 往上看 |\n"
    early = "| `a` | [A](02_x.ipynb) | mend · 修 |\n"
    other = "| `b` | [B](11_x.ipynb) | mend · 修 |\n"
    gone = "| `old` | [A](02_x.ipynb) | mend · 修 |\n"
    assert merged(head + gone + other + late, head + early) == head + early + other + late
    assert merged("", head + late + other) == head + other + late


def test_a_path_whose_beginning_torch_cut_off_is_shortened():
    told = "# if norm > 1:  # mp/course-2bru/7/home/breaks.py:49 in clip"
    assert SHORTENED.sub("", told) == "# if norm > 1:  # breaks.py:49 in clip"


def test_the_run_sheets_times():
    cells = []
    for text, seconds in [
        ("1 + 1", 0.4),
        (LAUNCH, 7.6),
        ("result('hang')", 1.3),
        ("# never", None),
    ]:
        cells.append({"source": [text], "metadata": {"papermill": {"duration": seconds}}})
    rows = json.loads(budget(cells, {"processor": "X"}))
    assert rows["machine"]["processor"] == "X"
    assert [(row["row"], row["seconds"]) for row in rows["rows"]] == [
        ("hang on 2", 8),
        ("launches", 8),
        ("other cells", 2),
    ]


# ---- a calm machine


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 2)


def once_more(looks: list[float]) -> float:
    """A look at a busy machine, which is kept."""
    looks.append(1.0)
    return looks[-1]


def test_a_busy_machine_is_waited_for(two_cores, capsys):
    looks = iter([1.1, CALM - 0.01, CALM])
    assert wait_until_calm("03", lambda: next(looks), threading.Event(), pause=0.01)
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 2
    assert told[0].startswith("03: waits for a calm machine (two processes come 1.10 × as far")


def test_a_machine_that_stays_busy_is_told_and_taken(two_cores, capsys):
    looks = []
    stopped = threading.Event()
    assert not wait_until_calm("03", partial(once_more, looks), stopped, patience=0)
    assert len(looks) == 1
    assert "still busy" in capsys.readouterr().out.splitlines()[-1]


def timed(path: Path, *sources: str) -> Path:
    """A notebook of cells; those that import time measure it."""
    cells = []
    for source in sources:
        cells.append(
            new_code_cell(source, metadata={"tags": ["timing"] * ("import time" in source)})
        )
    nbformat.write(new_notebook(cells=cells), path)
    return path


def test_only_cells_that_measure_times_wait(tmp_path, monkeypatch):
    """Of two of them, one finds a calm machine; the third cell does not ask."""
    path = timed(tmp_path / "a.ipynb", "import time", "1", "import time")
    answers = iter([True, False])
    monkeypatch.setattr(machine, "wait_until_calm", lambda *_, **options: next(answers))
    monkeypatch.setattr(execute, "SOCKETS", {})
    told = []
    how = {"parameters": {}, "limit": 60, "timing": "calm"}
    target = str(tmp_path / "b.ipynb")
    execute.execute(str(path), target, how, lambda *what: told.append(what))
    assert told == [("begins", 1), ("begins", 2), ("busy", ""), ("begins", 3)]
    assert next(answers, None) is None


def test_timings_of_two_notebooks_are_taken_in_turns(tmp_path):
    """Each holds the lock while its cell runs, and no longer: then it waits for the other's."""
    paths = []
    for me, peer in ("ab", "ba"):
        measure = "import time\nbegan = time.time()\ntime.sleep(1)\n"
        measure += f"open('{tmp_path}/{me}', 'w').write(f'{{began}} {{time.time()}}')"
        meet = f"import os\nwhile not os.path.exists('{tmp_path}/{peer}'): pass"
        paths.append(timed(tmp_path / f"{me}.ipynb", measure, meet))
    command = [sys.executable, *RUN, *paths, "--executed", tmp_path / "executed"]
    command += ["--jobs", "2", "--limit", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout
    first, second = sorted((tmp_path / name).read_text().split() for name in "ab")
    assert float(first[1]) <= float(second[0])


def test_an_interrupted_wait_ends_at_once(two_cores):
    stopped = threading.Event()
    stopped.set()
    looks = []
    busy = partial(once_more, looks)
    assert not wait_until_calm("03", busy, stopped, patience=1, pause=0.01)
    assert len(looks) == 1


def test_one_core_is_not_asked(monkeypatch):
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 1)
    assert wait_until_calm("03", lambda: 1 / 0, threading.Event())


def test_two_spinners_beside_busy_ones_come_less_far(monkeypatch):
    """On any machine: a spinner on each core leaves two of ours about half of one core each."""
    monkeypatch.setattr(machine, "SECONDS", 0.5)
    command = [sys.executable, "-P", machine.__file__, "--spin", "60"]
    others = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(os.cpu_count())]
    try:
        # Whoever else begins or ends in these seconds spoils a look; the median passes one over.
        looks = [machine.speedup({}) for _ in range(3)]
        assert 0 < sorted(looks)[1] < CALM
    finally:
        for process in others:
            process.kill()
            process.wait()
