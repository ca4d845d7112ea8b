"""How long a lesson takes: what counts, what does not, and that no core is longer than a period."""

import json

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from small_course import FIRST, PROGRAM, SECOND, Small

from course.evidence.record import what_runs
from course.facts.minutes import CORE, LAUNCH, Part, lesson_parts, parts, rounded
from course.lesson import Cell, Lesson
from course.rooms import LESSONS
from course.sources import Course

pytestmark = pytest.mark.quick

COURSE = Course(LESSONS.parents[1])
CORE_TEXT = """## Two words · 兩個字

Four [more words here](https://pytorch.org/docs/not-counted.html).

這一段有 five English words here 但是不算。

| two words · 兩個字 | `x` |
| --- | --- |

```diff
--- old.py
+++ new.py
@@ -1 +1 @@
 kept = 1
-a = 1
+a = 2
```

**Predict:** what?

**先猜猜看：** 什麼？"""
LAUNCHED = "!torchrun --standalone --nproc-per-node=2 hello.py"
CELLS = [
    new_markdown_cell(CORE_TEXT),
    new_code_cell("%%writefile hello.py\nprint(1)  # comments are free"),
    new_code_cell("%%writefile new.py\na = 2  # the diff has just shown it"),
    new_code_cell("%%writefile launch.py\nprint(2)", metadata={"tags": ["fold"]}),
    new_code_cell("not_counted = 1", metadata={"tags": ["class"]}),
    new_code_cell(LAUNCHED),
    new_markdown_cell("### Exercise 1 · 練習 1\n\nWrite.\n\n寫。"),
    new_markdown_cell("## Second period · 第二節"),
    new_code_cell(LAUNCHED),
    new_markdown_cell("## Going further · 延伸\n\n### More\n\nOne.\n\n一。"),
]


def read(seconds: list[float]) -> dict[str, Part]:
    return parts(Lesson(map(Cell, CELLS)), seconds)


def test_what_counts_in_which_part():
    found = read([2.0, 4.0])
    # Two in each heading, four and two in the prose and the table, and Predict: what?
    core = Part(words=2 + 4 + 2 + 1 + 2 + 2, tokens=6 + 4, exercises=1, predictions=1, launches=1)
    core.seconds = 2.0
    assert found["core"] == core
    assert found["second"] == Part(words=2, launches=1, seconds=4.0)
    assert found["further"] == Part(words=4)


def test_the_formula():
    part = Part(words=180, tokens=340, exercises=2, predictions=3, seconds=30)
    assert part.minutes == 1 + 2 + 10 + 3 + 0.5
    assert [rounded(minutes) for minutes in (0, 0.1, 5, 5.1, 50)] == [0, 5, 5, 10, 50]


@pytest.mark.parametrize("seconds", [[], [2.0], [2.0, 4.0, 6.0]])
def test_launches_of_another_run_do_not_count(seconds: list[float]):
    found = read(seconds)
    assert (found["core"].seconds, found["second"].seconds) == (LAUNCH, LAUNCH)


def test_the_head_says_what_the_lesson_takes(course: Small):
    course.replace(SECOND, "### Exercise 2 ·", "## Going further · 延伸\n\n### Exercise 2 ·")
    assert course.build() == 0
    first = course.notebook("01_first").cells[0].source
    assert "Core 15 minutes. Running every cell on Kaggle takes about 5 of your GPU" in first
    assert "核心 15 分鐘。在 Kaggle 上跑完全部儲存格，約用掉 5 分鐘" in first
    second = course.notebook("solutions/02_second").cells[0].source
    assert "Core 10 minutes · further 10 minutes. No GPU needed." in second
    assert "核心 10 分鐘，延伸 10 分鐘。不需要 GPU。" in second


def test_measured_launches_change_the_head(course: Small):
    path = course.path("01_first")
    notebook = json.loads(path.read_text())
    notebook["metadata"]["course"]["outputs"] = {"seconds": [600]}
    path.write_text(json.dumps(notebook))
    found = lesson_parts(Course(course.root), course.root / FIRST)
    assert found["core"].seconds == 600


T4S = """# Machines · 機器

<!-- two-t4s: filled by make build -->
<!-- end -->

<!-- machines: filled by make build -->
<!-- end -->

<span data-t4="hello on 2" data-else="5">5</span>
"""


def test_what_two_t4s_showed_is_told_until_the_lesson_runs_something_else(course: Small):
    """Made-up numbers, in a course of the tests."""
    course["assets/machines.md"] = T4S
    assert course.build() == 0
    assert (
        "| 01_first | 5, a guess · 估計 5 | not measured yet · 尚未量測 | |"
        in course["assets/machines.md"]
    )
    row = {
        "row": "01_first",
        "code": what_runs(Lesson.of(course.notebook("solutions/01_first")).cells),
    }
    row |= {"date": "2026-12-01", "minutes": 7, "gpus": 2, "backend": "nccl", "torch": "2.10"}
    row |= {"right": 2, "wrong": 0, "verdicts": [], "launches": {}, "numbers": {}}
    machine = {"gpus": ["Tesla T4"] * 2, "torch": "2.10", "nccl": "2.27", "kaggle": True}
    machine |= {"driver": "1.2", "python": "3.12"}
    course["assets/kaggle-t4x2.json"] = json.dumps({"machine": machine, "rows": [row]})

    def measured() -> list[bool]:
        assert course.build() == 0
        assert course.build("--check") == 0
        heads = [
            course.notebook(name).cells[0].source for name in ("01_first", "solutions/01_first")
        ]
        told = ["about 7 of your GPU minutes (measured on 2026-12-01)" in head for head in heads]
        told += ["約用掉 7 分鐘的 GPU 時數（2026-12-01 實測）" in head for head in heads]
        page = course["assets/machines.md"]
        told.append("| 01_first | 7 | 2 GPU, nccl, torch 2.10, 2026-12-01 | 2/0 |" in page)
        told.append("| 2 × Tesla T4 | 2.10, 2.27 | 1 |" in page)
        assert page.endswith('data-else="5">5</span>\n'), "of the workshop there is no run"
        return told

    assert all(measured())
    course.replace(PROGRAM, "Count alone", "Count quite alone")
    assert all(measured()), "words make no version older"
    course.replace(FIRST, "guess = 6 * 7", "guess = 42")
    assert not any(measured())


@pytest.mark.parametrize("path", COURSE.sources, ids=lambda path: path.stem)
def test_a_core_is_one_period(path):
    for name, part in lesson_parts(COURSE, path).items():
        assert name == "further" or part.minutes <= CORE, f"{name}: {part}"
