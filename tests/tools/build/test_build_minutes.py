"""How long a lesson takes: what counts, what does not, and that no core is longer than a period."""

import json

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from small_course import FIRST, SECOND, Small

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
    part = Part(words=180, tokens=520, exercises=2, predictions=3, seconds=30)
    assert part.minutes == 1 + 2 + 8 + 3 + 0.5
    assert [rounded(minutes) for minutes in (0, 0.1, 5, 5.1, 50)] == [0, 5, 5, 10, 50]


@pytest.mark.parametrize("seconds", [[], [2.0], [2.0, 4.0, 6.0]])
def test_launches_of_another_run_do_not_count(seconds: list[float]):
    found = read(seconds)
    assert (found["core"].seconds, found["second"].seconds) == (LAUNCH, LAUNCH)


def test_the_head_says_what_the_lesson_takes(course: Small):
    course.replace(SECOND, "### Exercise 2 ·", "## Going further · 延伸\n\n### Exercise 2 ·")
    assert course.build() == 0
    first = course.notebook("01_first").cells[0].source
    assert "Core 10 minutes. Running every cell on Kaggle takes about 5 of your GPU" in first
    assert "核心 10 分鐘。在 Kaggle 上跑完全部儲存格，約用掉 5 分鐘" in first
    second = course.notebook("solutions/02_second").cells[0].source
    assert "Core 5 minutes · further 5 minutes. No GPU needed." in second
    assert "核心 5 分鐘，延伸 5 分鐘。不需要 GPU。" in second


def test_measured_launches_change_the_head(course: Small):
    path = course.path("01_first")
    notebook = json.loads(path.read_text())
    notebook["metadata"]["course"]["outputs"] = {"seconds": [600]}
    path.write_text(json.dumps(notebook))
    found = lesson_parts(Course(course.root), course.root / FIRST)
    assert found["core"].seconds == 600


@pytest.mark.parametrize("path", COURSE.sources, ids=lambda path: path.stem)
def test_a_core_is_one_period(path):
    for name, part in lesson_parts(COURSE, path).items():
        assert name == "further" or part.minutes <= CORE, f"{name}: {part}"
