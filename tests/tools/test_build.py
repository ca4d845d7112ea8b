"""The build: from small courses written into a temporary folder to notebooks, and every source that it must refuse."""

import difflib
import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbformat.v4 import new_code_cell, new_output
from opencc import OpenCC

ROOT = Path(__file__).resolve().parents[2]

import build
from languages import INNOCENT, TAIWAN, check_languages, simplified

LESSON = """\
---
jupyter:
  course:
    minutes: 5
    quick:
      STEPS: 1
---

# 01 · First · 第一課

Two ranks count.

兩個 rank 在數數。

```python tags=["parameters"]
from shutil import which

GPU = which("nvidia-smi") is not None
STEPS = 3 if GPU else 2
UNUSED = 1
```

```python tags=["fold", "workshop"]
%%writefile launch.py
```

```python tags=["workshop"]
from launch import failure, result
```

What changes from one program to the next:

從一支程式到下一支，改變的是：

```diff alpha.py beta.py
```

```python tags=["workshop"]
%%writefile tools.py
```

```python tags=["workshop"]
%%writefile alpha.py
```

```python tags=["workshop"]
!torchrun --standalone --nproc-per-node=2 alpha.py --steps {STEPS // 1}
```

```python tags=["workshop"]
alpha = result("alpha")
```

```python
# BEGIN SOLUTION
guess = 6 * 7
# STUB guess = 0
# END SOLUTION
print("✓" if guess == 42 else "not yet")
```

```python tags=["solution"]
assert guess == 42
```

<!-- #region tags=["solution"] -->
Forty-two it is.

就是四十二。
<!-- #endregion -->
"""

SECOND_LESSON = """\
---
jupyter:
  course:
    minutes: 7
---

# 02 · Second · 第二課

<!-- #region tags=["workshop"] -->
Again, with another program.

換一支程式再來一次。
<!-- #endregion -->

```python tags=["parameters"]
SIZE, (FIRST, *REST) = 8, (1, 2, 3)
RATE: float = 0.1  # learning rate
RATE *= 2
STEPS = 99
```

```python tags=["fold", "workshop"]
%%writefile launch.py
```

```python tags=["fold", "workshop"]
%%writefile tools.py
```

```python
from launch import failure
```

```python
%%writefile alpha.py
```

```python tags=["workshop"]
%%writefile beta.py
```

```python tags=["workshop"]
!torchrun --standalone --nproc-per-node=2 beta.py --size {SIZE} --first {FIRST}
```

```python tags=["workshop"]
failure("beta", expects="too large")
```

```python
!torchrun --standalone --nproc-per-node=1 beta.py --size {REST} --rate {RATE}
```

```python
failure("beta", expects="too large")
```
"""

ALPHA = '''\
"""Count alone."""

from torch.distributed.elastic.multiprocessing.errors import record

from tools import count


@record
def main() -> None:
    # region loop
    total = 0
    for number in range(3):
        if 0 < number:
            total += count(number)
    # endregion
    print(total)


if __name__ == "__main__":
    main()
'''
BETA = ALPHA.replace("alone", "together").replace("range(3)", "range(4)")
TOOLS = '''\
"""What the programs share."""


def count(number: int) -> int:
    # BEGIN SOLUTION
    half = number / 2

    return int(2 * half)
    # STUB return 0
    # END SOLUTION
'''
TABLES = [f"<!-- {name}: filled by scripts/build.py -->\n<!-- end -->\n\n" for name in ("lessons", "errors")]
README = f"# Course · 課程\n\n{''.join(TABLES)}The end.\n"
SLIDES = """\
<pre class="code" data-src="alpha.py#loop" id="a">old</pre>
<pre data-src="alpha.py#L8-L9"></pre>
<span data-run="bench.json#two / one#ratio">9</span> on <span class="n" data-run="bench.json#machine#cores"></span>
"""
RUN = '{"machine": {"cores": 2}, "rows": [{"row": "two / one", "ratio": 1.8765}]}'

SETTINGS = {"language": "python", "kernel_type": "notebook", "is_private": True, "enable_gpu": True}
SETTINGS |= {"enable_internet": True, "machine_shape": "NvidiaTeslaT4", "dataset_sources": ["someone/pictures"]}
ALONE = {"title": "Second on a CPU", "slug": "second-on-a-cpu", "code_file": "notebooks/02_second.ipynb"}
KERNELS = {
    "owner": "OWNER",
    "repository": "us/course",
    "defaults": SETTINGS,
    "kernels": [ALONE | {"enable_gpu": False}],
}
LISTED = "kaggle-metadata.json"

FIRST, SECOND = "notebooks/src/01_first.md", "notebooks/src/02_second.md"
PROGRAM, TOOLBOX, DECK = "scripts/lessons/alpha.py", "scripts/lessons/tools.py", "assets/deck.html"
SOURCES = {FIRST: LESSON, SECOND: SECOND_LESSON, PROGRAM: ALPHA, TOOLBOX: TOOLS, "README.md": README, DECK: SLIDES}
SOURCES |= {
    "assets/bench.json": RUN,
    LISTED: json.dumps(KERNELS),
    "scripts/lessons/beta.py": BETA,
    "scripts/lessons/launch.py": "def result(name): ...\n",
}


class Small:
    """A course of two lessons in a folder of its own."""

    def __init__(self, root: Path):
        self.root = root

    def __getitem__(self, path: str) -> str:
        return (self.root / path).read_text()

    def __setitem__(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def replace(self, path: str, old: str, new: str) -> None:
        assert self[path].count(old) >= 1, f"{path} lacks {old!r}"
        self[path] = self[path].replace(old, new)

    def build(self, *options: str) -> int:
        return build.main(["--root", str(self.root), *options])

    def files(self) -> dict[str, tuple[int, str]]:
        """Every file with the time of its last writing and its text."""
        return {str(p): (p.stat().st_mtime_ns, p.read_text()) for p in sorted(self.root.rglob("*")) if p.is_file()}

    def notebook(self, name: str = "01_first") -> nbformat.NotebookNode:
        return nbformat.read(self.root / "notebooks" / f"{name}.ipynb", as_version=4)

    def code(self, name: str = "01_first") -> list[str]:
        return [cell.source for cell in self.notebook(name).cells if cell.cell_type == "code"]

    def run(self, name: str = "01_first") -> None:
        """Give every code cell an output, as a run does, and the record of the machine."""
        executed, committed = self.notebook(name), self.notebook(name)
        for number, cell in enumerate(cell for cell in executed.cells if cell.cell_type == "code"):
            cell.outputs, cell.execution_count = [new_output("stream", text=f"output {number}\n")], number + 1
        assert build.keep_outputs(executed, committed, {"torch": "2.10.0", "device": "CPU"}) == len(self.code(name))
        nbformat.write(committed, self.root / "notebooks" / f"{name}.ipynb")

    def outputs(self, name: str = "01_first") -> list[bool]:
        return [bool(cell.outputs) for cell in self.notebook(name).cells if cell.cell_type == "code"]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small course, built once."""
    course = Small(tmp_path_factory.mktemp("course"))
    for path, text in SOURCES.items():
        course[path] = text
    assert course.build() == 0
    return course.root


@pytest.fixture
def course(template: Path, tmp_path: Path) -> Small:
    """A small course, built, of one's own."""
    return Small(shutil.copytree(template, tmp_path / "course"))


# ---- what is built


def test_the_real_repository_is_what_would_be_built():
    assert build.main(["--check"]) == 0


def test_a_second_build_writes_nothing_and_a_fresh_one_writes_the_same(course: Small):
    before = course.files()
    assert course.build() == 0
    assert course.build("--check") == 0
    assert course.files() == before
    for path in (course.root / "notebooks").rglob("*.ipynb"):
        path.unlink()
    assert course.build() == 0
    assert {path: text for path, (_, text) in course.files().items()} == {p: text for p, (_, text) in before.items()}


def test_an_id_depends_on_its_own_cell_alone(course: Small):
    before = {cell.source: cell.id for cell in course.notebook().cells}
    course.replace(FIRST, "# BEGIN SOLUTION", "guess = 0\n```\n\n```python\n# BEGIN SOLUTION")
    course.replace(FIRST, '```python tags=["parameters"]', '```python\n1 + 1\n```\n\n```python tags=["parameters"]')
    assert course.build() == 0
    after = {cell.source: cell.id for cell in course.notebook().cells}
    assert after == before | {"1 + 1": after["1 + 1"], "guess = 0": after["guess = 0"]}
    assert len(set(after.values())) == len(before) + 2


def test_equal_cells_have_different_ids(course: Small):
    twins = [cell.id for cell in course.notebook("02_second").cells if cell.source.startswith("failure")]
    assert len(twins) == len(set(twins)) == 2


def test_a_notebook_says_where_it_comes_from_and_is_valid(course: Small):
    for path in sorted((course.root / "notebooks").rglob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        source = "notebooks/src/*.md" if path.stem == "workshop" else f"notebooks/src/{path.stem}.md"
        assert notebook.metadata.course.generated_from.startswith(source)
    assert course.notebook().metadata.course.quick == {"STEPS": 1}


def test_a_program_stands_in_its_cell_and_tags_are_kept(course: Small):
    cells = {cell.source.splitlines()[0]: cell for cell in course.notebook().cells}
    assert cells["%%writefile alpha.py"].source == f"%%writefile alpha.py\n{ALPHA}".rstrip("\n")
    assert cells["from shutil import which"].metadata == {"tags": ["parameters"]}
    folded = cells["%%writefile launch.py"].metadata
    assert folded["jupyter"] == {"source_hidden": True} and folded["_kg_hide-input"] and "fold" in folded["tags"]


def test_the_diff_is_computed_and_follows_the_programs(course: Small):
    def expected() -> str:
        old, new = (course[f"scripts/lessons/{stem}.py"].splitlines() for stem in ("alpha", "beta"))
        lines = difflib.unified_diff(old, new, "alpha.py", "beta.py", n=1, lineterm="")
        return "\n".join(["```diff", *lines, "```"])

    def shown() -> str:
        return next(cell.source for cell in course.notebook().cells if "```diff" in cell.source)

    before = expected()
    assert before in shown() and "+    for number in range(4):" in before
    course.replace("scripts/lessons/beta.py", "range(4)", "range(5)")
    assert course.build("--check") == 1
    assert course.build() == 0
    assert expected() != before and expected() in shown()


def test_solutions_and_stubs(course: Small):
    stub, solution = course.code(), course.code("solutions/01_first")
    assert 'guess = 0\nprint("✓"' in stub[-1] and stub[-1].startswith("# your code here (1 line)\n")
    assert "guess = 6 * 7" not in "\n".join(stub)
    assert solution[-2].startswith("guess = 6 * 7\nprint(") and solution[-1] == "assert guess == 42"
    tools = "def count(number: int) -> int:\n"
    assert any(text.endswith(f"{tools}    # your code here (3 lines)\n    return 0") for text in stub)
    assert any(text.endswith(f"{tools}    half = number / 2\n\n    return int(2 * half)") for text in solution)
    assert "Forty-two" not in course["notebooks/01_first.ipynb"]
    assert "Forty-two" in course["notebooks/solutions/01_first.ipynb"]
    for text in stub + solution:
        assert not re.search("SOLUTION|STUB", text)


@pytest.mark.parametrize("solved", [False, True], ids=["stubs", "solutions"])
def test_every_cell_and_program_compiles(course: Small, solved: bool):
    transform = TransformerManager().transform_cell
    for root in (course.root, ROOT):
        course = build.Course(root)
        assert course.sources
        for path in course.sources:
            for place, cell in course.lesson(path, solved):
                if cell.cell_type == "code":
                    written = cell.source.startswith("%%writefile")
                    text = cell.source.split("\n", 1)[1] if written else transform(cell.source)
                    compile(text, place, "exec")


def links(text: str) -> list[str]:
    """Where a line of badges leads, without the pictures themselves."""
    return [link for link in re.findall(r"\]\((https[^)]*)\)", text) if not link.endswith(".svg")]


def elsewhere(name: str, machine: str) -> list[str]:
    """Where the badges of a notebook must lead, and the way back to its source."""
    at = f"us/course/blob/main/notebooks/{name}.ipynb"
    kaggle = f"https://www.kaggle.com/notebooks/welcome?src=https://github.com/{at}&accelerator={machine}"
    return [kaggle, f"https://colab.research.google.com/github/{at}", f"https://github.com/{at}"]


@pytest.mark.parametrize("name", ["01_first", "solutions/01_first", "solutions/02_second", "workshop"])
def test_a_notebook_opens_elsewhere_with_two_gpus_and_leads_back(course: Small, name: str):
    if name == "workshop":  # its title comes from a lesson
        course.replace(FIRST, "Two ranks", '<!-- #region tags=["workshop"] -->\n# Class · 課\n\nTwo ranks')
        course.replace(FIRST, "在數數。\n", "在數數。\n<!-- #endregion -->\n")
        assert course.build() == 0
    notebook = course.notebook(name)
    title, empty, badges, *_ = notebook.cells[0].source.splitlines()
    assert title.startswith("# ") and not empty and badges.count("[![") == 2
    assert links(badges) == elsewhere(name, "nvidiaTeslaT4")
    machine = {"accelerator": "nvidiaTeslaT4", "isGpuEnabled": True, "isInternetEnabled": True}
    assert notebook.metadata.kaggle == machine | {"language": "python", "sourceType": "notebook"}
    assert (notebook.metadata.accelerator, notebook.metadata.colab) == ("GPU", {"gpuType": "T4"})


def test_a_notebook_that_is_listed_with_other_settings_has_them(course: Small):
    notebook = course.notebook("02_second")
    assert links(notebook.cells[0].source) == elsewhere("02_second", "none")
    assert (notebook.metadata.kaggle.accelerator, notebook.metadata.kaggle.isGpuEnabled) == ("none", False)
    assert "accelerator" not in notebook.metadata


def test_badges_leave_outputs_alone(course: Small):
    course.run()
    before = course.notebook()
    course.replace(LISTED, "us/course", "them/lessons")
    assert course.build("--check") == 1
    assert course.build() == 0
    assert all(course.outputs()) and course.notebook().metadata.course.outputs == before.metadata.course.outputs
    assert "github.com/them/lessons/" in course.notebook().cells[0].source


def test_the_readme_lists_the_lessons(course: Small):
    rows = course["README.md"].split("<!-- lessons: filled by scripts/build.py -->\n")[1].split("<!-- end -->")[0]
    assert [re.sub(r" \| \[!.*?\) \| ", " | ", row) for row in rows.splitlines()[2:]] == [
        "| [01 First](notebooks/01_first.ipynb) | 第一課 | 5 | [✓](notebooks/solutions/01_first.ipynb) |",
        "| [02 Second](notebooks/02_second.ipynb) | 第二課 | 7 | [✓](notebooks/solutions/02_second.ipynb) |",
        "| [The workshop](notebooks/workshop.ipynb) | 九十分鐘的工作坊 | 90 "
        "| [✓](notebooks/solutions/workshop.ipynb) |",
    ]
    first, second, _ = map(links, rows.splitlines()[2:])
    assert first == elsewhere("01_first", "nvidiaTeslaT4")[:2] and second == elsewhere("02_second", "none")[:2]
    assert course["README.md"].endswith(TABLES[1] + "The end.\n"), "what stands around it is untouched"


def test_the_table_of_errors_leads_to_its_section(course: Small):
    head = "| error · 錯誤 | section |\n| --- | --- |\n"
    course["assets/errors.md"] = head + "| `it broke` | [How it breaks](02_second.ipynb) |\n"
    course.replace(SECOND, "再來一次。\n", "再來一次。\n\n## How it breaks · 怎麼壞的\n")
    course[FIRST] = course[FIRST].replace("\nWhat changes", "\n<!-- errors -->\n\nWhat changes", 1)
    assert course.build("--check") == 1
    assert course.build() == 0
    place = next(cell.id for cell in course.notebook("02_second").cells if "怎麼壞的" in cell.source)
    row = f"02_second.ipynb#cell-id={place}) |"
    assert f"{head}| `it broke` | [How it breaks](notebooks/{row}\n<!-- end -->" in course["README.md"]
    for folder in ("", "solutions/"):
        cells = course.notebook(f"{folder}01_first").cells
        assert any(f"| `it broke` | [How it breaks]({row}" in cell.source for cell in cells)


def test_the_deck_is_filled_by_region_and_by_lines(course: Small):
    loop = "total = 0\nfor number in range(3):\n    if 0 &lt; number:\n        total += count(number)"
    assert f'<pre class="code" data-src="alpha.py#loop" id="a">{loop}</pre>' in course["assets/deck.html"]
    assert '<pre data-src="alpha.py#L8-L9">@record\ndef main() -&gt; None:</pre>' in course["assets/deck.html"]


def test_numbers_in_the_deck_are_filled_from_a_reference_run(course: Small):
    filled = '"bench.json#two / one#ratio">1.88</span> on <span class="n" data-run="bench.json#machine#cores">2</span>'
    assert filled in course["assets/deck.html"]
    course.replace("assets/bench.json", "1.8765", "0.9")
    assert course.build("--check") == 1
    assert course.build() == 0
    assert filled.replace("1.88", "0.90") in course["assets/deck.html"]


def test_a_browser_writes_filled_code_as_the_build_does(course: Small):
    """Quotes stay quotes: an export from the browser equals the file byte for byte."""
    course.replace("scripts/lessons/alpha.py", "total = 0", "total = len('\"') - 1")
    assert course.build() == 0
    assert "total = len('\"') - 1" in course["assets/deck.html"]


def test_the_workshop_takes_each_program_and_parameter_once_in_lesson_order(course: Small):
    dials = (
        'from shutil import which\nGPU = which("nvidia-smi") is not None\nSTEPS = 3 if GPU else 2\n'
        "SIZE, (FIRST, *REST) = 8, (1, 2, 3)"
    )
    firsts = [cell.source.splitlines()[0] for cell in course.notebook("workshop").cells]
    assert firsts == [
        "from shutil import which",
        "%%writefile launch.py",
        "from launch import failure, result",
        "%%writefile tools.py",
        "%%writefile alpha.py",
        "!torchrun --standalone --nproc-per-node=2 alpha.py --steps {STEPS // 1}",
        'alpha = result("alpha")',
        "Again, with another program.",
        "%%writefile beta.py",
        "!torchrun --standalone --nproc-per-node=2 beta.py --size {SIZE} --first {FIRST}",
        'failure("beta", expects="too large")',
    ]
    parameters = [c for c in course.notebook("workshop").cells if "parameters" in c.metadata.get("tags", [])]
    assert [cell.source for cell in parameters] == [dials]
    assert course.notebook("workshop").metadata.course.quick == {"STEPS": 1}
    tools = [[text for text in course.code(n) if "tools.py" in text] for n in ("workshop", "solutions/workshop")]
    assert ["return 0" in text for [text] in tools] == [True, False]


LIVE = "    # BEGIN LIVE\n    total = 0\n    # STUB total = 1\n    # END LIVE\n"


def test_a_lesson_shrinks_only_the_parameters_that_it_brings_to_the_workshop(course: Small):
    course.replace(SECOND, "    minutes: 7\n", "    minutes: 7\n    quick:\n      STEPS: 50\n      SIZE: 3\n")
    assert course.build() == 0
    assert course.notebook("workshop").metadata.course.quick == {"STEPS": 1, "SIZE": 3}


def test_a_live_region_is_an_exercise_in_the_workshop_alone(course: Small):
    course.replace(PROGRAM, "    total = 0\n", LIVE)
    assert course.build() == 0
    stub, whole = "    # your code here (1 line)\n    total = 1\n    for", "    # region loop\n    total = 0\n    for"
    for name in (
        "01_first",
        "02_second",
        "solutions/01_first",
        "solutions/02_second",
        "workshop",
        "solutions/workshop",
    ):
        [text] = [text for text in course.code(name) if text.startswith("%%writefile alpha")]
        assert (stub if name == "workshop" else whole) in text, name
    assert "LIVE" not in "".join(course[path] for path in course.files() if path.endswith(".ipynb"))
    assert "total = 0\nfor" in course[DECK]


def test_a_live_program_has_its_100_lines_when_it_is_whole(course: Small):
    course[PROGRAM] = ALPHA.replace("    print(total)\n", "    print(total)\n" * 81).replace("    total = 0\n", LIVE)
    assert course.build() == 0
    assert any(len(text.splitlines()) == 102 for text in course.code("workshop"))  # with its magic, and a line of stub


def test_a_cell_for_the_class_stands_in_the_workshop_alone(course: Small):
    course.replace(FIRST, "```python\n# BEGIN", '```python tags=["class"]\n1 + 1\n```\n\n```python\n# BEGIN')
    assert course.build() == 0
    found = [name for name in ("01_first", "solutions/01_first") if "1 + 1" in course.code(name)]
    assert not found and all("1 + 1" in course.code(name) for name in ("workshop", "solutions/workshop"))


def test_a_lesson_cannot_rest_on_a_program_that_only_the_class_writes(course: Small, capsys: pytest.CaptureFixture):
    course.replace(FIRST, 'python tags=["workshop"]\n%%writefile alpha', 'python tags=["class"]\n%%writefile alpha')
    refused(course, capsys, "cell 8: it needs alpha.py, which no cell before writes")


def test_a_cell_can_wait_in_the_workshop_until_another_lesson_is_done(course: Small):
    for start in ("%%writefile alpha", "!torchrun", "alpha ="):
        course.replace(FIRST, f'["workshop"]\n{start}', f'["workshop", "after-02"]\n{start}')
    assert course.build() == 0
    starts = ["%%writefile b", "!torchrun", 'failure("b', "%%writefile a", "!torchrun", "alpha ="]
    assert all(map(str.startswith, course.code("workshop")[-6:], starts))
    assert course.code().index('alpha = result("alpha")') < len(course.code()) - 1  # in its lesson it stays in place


def test_without_tagged_cells_there_is_no_workshop(course: Small):
    for path in (FIRST, SECOND):
        course[path] = course[path].replace(', "workshop"', "").replace('"workshop"', "")
    assert course.build() == 1  # the old one has lost its source
    for folder in ("notebooks", "notebooks/solutions"):
        (course.root / folder / "workshop.ipynb").unlink()
    assert course.build() == 0
    assert not list(course.root.rglob("workshop.ipynb"))


# ---- what --check notices


CHANGES = {
    "prose": (FIRST, "Two ranks count.", "Two ranks count on."),
    "code": (FIRST, 'print("✓"', 'print("✔"'),
    "solution": (FIRST, "guess = 6 * 7", "guess = 42"),
    "tag": (FIRST, '["fold", "workshop"]', '["workshop"]'),
    "quick": (FIRST, "STEPS: 1", "STEPS: 2"),
    "program": ("scripts/lessons/alpha.py", "range(3)", "range(2)"),
    "title": (FIRST, "01 · First", "01 · Foremost"),
    "repository": (LISTED, "us/course", "them/course"),
    "table by hand": ("README.md", "| 第一課 |", "| 第1課 |"),
    "deck by hand": ("assets/deck.html", "total = 0", "total = 1"),
    "number by hand": ("assets/deck.html", "1.88", "2.00"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_check_is_red_after_any_change(course: Small, change: tuple[str, str, str]):
    course.replace(*change)
    before = course.files()
    assert course.build("--check") == 1
    assert course.files() == before


def test_check_is_green_again_after_the_next_build(course: Small):
    for change in CHANGES.values():
        course.replace(*change)
    assert course.build() == 0
    assert course.build("--check") == 0


def test_a_notebook_without_a_source_is_reported(course: Small, capsys: pytest.CaptureFixture):
    (course.root / "notebooks" / ".ipynb_checkpoints").mkdir()
    course["notebooks/.ipynb_checkpoints/01_first-checkpoint.ipynb"] = "{}"
    assert course.build("--check") == 0
    (course.root / SECOND).rename(course.root / "notebooks" / "src" / "02_other.md")
    assert course.build() == 1
    said = capsys.readouterr().out
    assert "notebooks/02_second.ipynb: no source builds it" in said
    assert "notebooks/solutions/02_second.ipynb: no source builds it" in said
    assert course.build("--check") == 1


@pytest.mark.parametrize("damage", ["edit", "merge conflict"])
def test_a_notebook_edited_by_hand_is_never_overwritten(course: Small, capsys: pytest.CaptureFixture, damage: str):
    path, built = "notebooks/01_first.ipynb", course["notebooks/01_first.ipynb"]
    if damage == "edit":
        course.replace(path, "Two ranks count.", "Two ranks count on their fingers.")
    else:
        course[path] = f"<<<<<<< HEAD\n{built}=======\n{built}>>>>>>> other\n"
    course.replace(SECOND, "Again,", "Once more,")
    before = course.files()
    for options in ([], ["--check"]):
        assert course.build(*options) == 1
        said = capsys.readouterr().err
        assert f"{path}: this notebook was edited by hand" in said and FIRST in said and "--force" in said
        assert course.files() == before
    assert course.build("--force") == 0
    assert course[path] == built
    assert course.build("--check") == 0


# ---- outputs


def test_outputs_stay_while_nothing_before_them_changes(course: Small):
    course.run()
    assert course.build("--check") == 0
    course.replace(FIRST, "Two ranks count.", "Two ranks count on.")
    assert course.build() == 0
    assert all(course.outputs())
    assert [cell.execution_count for cell in course.notebook().cells if cell.cell_type == "code"] == list(range(1, 9))


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ((FIRST, 'alpha = result("alpha")', 'alpha = result("alpha", rank=1)'), 6),
        (("scripts/lessons/tools.py", "return 0", "return 1"), 3),
        ((FIRST, "UNUSED = 1\n", "UNUSED = 2\n"), 0),
        ((FIRST, "guess = 6 * 7", "guess = 42"), 8),
    ],
    ids=["cell", "program", "parameters", "solution only"],
)
def test_stale_outputs_go_from_the_changed_cell_on(course: Small, change: tuple[str, str, str], kept: int):
    course.run()
    whole = course.notebook().metadata.course.outputs
    assert whole.torch == "2.10.0" and whole.device == "CPU"
    course.replace(*change)
    assert course.build() == 0
    assert course.outputs() == [True] * kept + [False] * (8 - kept)
    left = course.notebook().metadata.course.get("outputs", {})
    assert (left == whole) == (kept == 8)
    assert left.get("torch") == ("2.10.0" if kept else None)
    assert course.build("--check") == 0


def test_the_workshop_has_outputs_of_its_own(course: Small):
    course.run("workshop")
    course.replace(FIRST, "UNUSED = 1\n", "UNUSED = 2\n")
    assert course.build() == 0
    assert all(course.outputs("workshop")) and not any(course.outputs())


def test_the_cell_that_papermill_injects_is_no_edit_and_its_outputs_are_not_taken(course: Small):
    course.run()
    built, injected = course["notebooks/01_first.ipynb"], course.notebook()
    extra = new_code_cell("# Parameters\nSTEPS = 1", metadata={"tags": ["injected-parameters"]})
    injected.cells.insert(2, extra)
    nbformat.write(injected, course.root / "notebooks" / "01_first.ipynb")
    assert course.build() == 0
    assert course.code() == [c.source for c in nbformat.reads(built, as_version=4).cells if c.cell_type == "code"]
    assert course.outputs() == [True] + [False] * 7


def test_pieces_of_a_stream_are_joined_and_line_ends_made_plain(course: Small):
    executed, committed = course.notebook(), course.notebook()
    first = next(cell for cell in executed.cells if cell.cell_type == "code")
    pieces = ["rank 0\r\nrank", " 1\r", "\n10 %\r", "100 %\r\n"]
    first.outputs = [new_output("stream", name="stdout", text=text) for text in pieces]
    first.outputs += [new_output("stream", name="stderr", text="a"), new_output("display_data", {"text/plain": "b"})]
    build.keep_outputs(executed, committed)
    kept = next(cell for cell in committed.cells if cell.cell_type == "code").outputs
    assert [output.output_type for output in kept] == ["stream", "stream", "display_data"]
    assert [output.get("text") for output in kept[:2]] == ["rank 0\nrank 1\n100 %\n", "a"]
    assert "outputs" not in committed.metadata.course  # no machine is known


# ---- what is refused

LAUNCH = "!torchrun --standalone --nproc-per-node=2 alpha.py --steps {STEPS // 1}"
READING, TAGGED = 'alpha = result("alpha")', 'python tags=["workshop"]\n'
NO_LAUNCH, NO_PAIR = "cell 8: a launch is `!torchrun", "cell 10: BEGIN SOLUTION (or LIVE), STUB and END"
NO_MAIN = "cell 8: alpha.py lacks `@record` on `main`"

LANGUAGES = {
    "translation": (FIRST, "兩個 rank 在數數。", "", f"{FIRST}, cell 1: the last English paragraph lacks its 中文"),
    "original": (FIRST, "What changes from one program to the next:\n\n", "", f"{FIRST}, cell 5: “從一支程式到下"),
    "heading": (SECOND, "第二課", "Deux", f"{SECOND}, cell 1: “# 02 · Second · Deux” lacks 中文"),
    "simplified": (FIRST, "在數數", "在数数", f"{FIRST}, cell 1: simplified characters 数数"),
    "mainland word": (FIRST, "兩個 rank", "兩個進程", f"{FIRST}, cell 1: not a word of Taiwan: 進程 (write 行程)"),
}
PROGRAMS = {
    "absent": (FIRST, "%%writefile tools.py", "%%writefile tool.py", "cell 6: there is no scripts/lessons/tool.py"),
    "not alone": (FIRST, "%%writefile tools.py", "%%writefile tools.py\nx = 1", "cell 6: `%%writefile NAME.py`"),
    "too long": (PROGRAM, "    print(total)\n", "    print(total)\n" * 82, f"{PROGRAM}: 101 lines; this program may"),
    "in error": (PROGRAM, "total = 0", "total = = 0", "alpha.py, line 11"),
    "without record": (PROGRAM, "@record\n", "", NO_MAIN),
    "without guard": (PROGRAM, 'if __name__ == "__main__":\n    main()', "main()", NO_MAIN),
    "without stub": (TOOLBOX, "    # STUB return 0\n", "", f"{TOOLBOX}: a solution without a `# STUB …` line"),
    "stub in error": (TOOLBOX, "# STUB return 0", "# STUB return = 0", "tools.py, line 6"),
    "stub outside": (FIRST, "# END SOLUTION\n", "# END SOLUTION\n# STUB x = 0\n", NO_PAIR),
    "solution without end": (FIRST, "# END SOLUTION\n", "", NO_PAIR),
    "diff by hand": (FIRST, "```diff alpha.py beta.py\n", "```diff alpha.py beta.py\n-a\n+b\n", "cell 5: a diff names"),
    "diff of one": (FIRST, "```diff alpha.py beta.py", "```diff alpha.py", "cell 5: a diff names two programs"),
}
LAUNCHES = {
    "long cell": (FIRST, "assert guess == 42", "\n".join("abcdefghijklm"), f"{FIRST}, cell 11: a cell has 12 lines"),
    "program not written": (
        FIRST,
        "%%writefile alpha.py",
        "%%writefile beta.py",
        "cell 8: it needs alpha.py, which no",
    ),
    "import not written": (FIRST, "%%writefile tools.py", "%%writefile beta.py", "cell 8: it needs tools.py, which no"),
    "helper not written": (FIRST, "%%writefile launch.py", "%%writefile beta.py", "cell 4: it needs launch.py, which"),
    "not read": (FIRST, READING, "alpha = 1", "cell 9: read the launch of alpha.py here"),
    "another is read": (FIRST, READING, 'alpha = result("beta")', "cell 9: read the launch of alpha.py here"),
    "last one not read": (FIRST, "assert guess == 42", LAUNCH, "cell 11: no cell reads this launch"),
    "read, not launched": (FIRST, "assert guess == 42", 'result("beta")', "cell 11: no cell before launches {'beta'}"),
    "two in a cell": (FIRST, LAUNCH, f"{LAUNCH}\n{LAUNCH}", NO_LAUNCH),
    "among code": (FIRST, LAUNCH, f"x = 1\n{LAUNCH}", NO_LAUNCH),
    "into a variable": (FIRST, LAUNCH, f"said = {LAUNCH}", NO_LAUNCH),
    "in a pipe": (FIRST, LAUNCH, f"{LAUNCH} | tee log", NO_LAUNCH),
    "with a variable": (FIRST, LAUNCH, f"!A=1 {LAUNCH[1:]}", NO_LAUNCH),
    "in the shell": (FIRST, LAUNCH, f"%%bash\n{LAUNCH[1:]}", NO_LAUNCH),
    "by python": (FIRST, LAUNCH, "!python alpha.py", NO_LAUNCH),
    "no parameter": (FIRST, "{STEPS // 1}", "{STEPS // FACTOR}", "cell 8: no parameters cell before sets {'FACTOR'}"),
    "no expression": (FIRST, "{STEPS // 1}", "{STEPS //}", "01_first.md, cell 8, line 1"),
}
WORKSHOP = {
    "undefined name": (FIRST, f"{TAGGED}from launch", "python\nfrom launch", "Undefined name `result`"),
    "two defaults": (SECOND, "{SIZE} --first {FIRST}", "{STEPS}", f"{SECOND}, cell 3: the workshop has another STEPS"),
    "untagged program": (FIRST, f"{TAGGED}%%writefile alpha", "python\n%%writefile alpha", "cell 8: it needs alpha.py"),
    "untagged reading": (FIRST, f"{TAGGED}alpha =", "python\nalpha =", "read the launch of alpha.py here"),
    "untagged launch": (FIRST, f"{TAGGED}!torchrun", "python\n!torchrun", "cell 9: no cell before launches {'alpha'}"),
}
REGIONS = {
    "unknown region": (DECK, "alpha.py#loop", "alpha.py#loops", f"{DECK}: alpha.py#loops is nowhere"),
    "lines beyond the end": (DECK, "#L8-L9", "#L8-L99", f"{DECK}: alpha.py#L8-L99 is nowhere"),
    "no place": (DECK, "alpha.py#loop", "alpha.py", f"{DECK}: alpha.py is nowhere"),
    "unknown row": (DECK, "two / one", "one / two", f"{DECK}: bench.json#one / two#ratio is nowhere"),
    "unknown number": (DECK, "#ratio", "#ration", f"{DECK}: bench.json#two / one#ration is nowhere"),
    "unknown run": (DECK, "bench.json#machine", "run.json#machine", f"{DECK}: run.json#machine#cores is nowhere"),
    "number without a place": (DECK, "#machine#cores", "", f"{DECK}: bench.json is nowhere"),
    "lines in reverse": (DECK, "#L8-L9", "#L9-L7", f"{DECK}: alpha.py#L9-L7 is nowhere"),
    "no table": ("README.md", "<!-- end -->", "", "README.md: it lacks its marked region"),
    "no minutes": (FIRST, "    minutes: 5\n", "", f"{FIRST}: begin with `# 03 · Title · 標題`, and give `minutes`"),
}
LISTING = {"typo in the list": (LISTED, "enable_gpu", "enable_gpus", f"{LISTED}, defaults: ")}
REFUSED = LISTING | LANGUAGES | PROGRAMS | LAUNCHES | WORKSHOP | REGIONS


def refused(course: Small, capsys: pytest.CaptureFixture, message: str) -> None:
    """The build says why it does not accept the sources, and writes nothing."""
    before = course.files()
    assert course.build() == 1
    assert message in capsys.readouterr().err
    assert course.files() == before


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(course: Small, capsys: pytest.CaptureFixture, case: tuple[str, str, str, str]):
    path, old, new, message = case
    course.replace(path, old, new)
    refused(course, capsys, message)


@pytest.mark.parametrize("module", ["json", "pytest", "nbformat"])
def test_a_program_that_hides_a_module_is_refused(course: Small, capsys: pytest.CaptureFixture, module: str):
    course[f"scripts/lessons/{module}.py"] = "x = 1\n"
    course.replace(SECOND, "%%writefile alpha.py", f"%%writefile {module}.py")
    refused(course, capsys, f"{SECOND}, cell 7: {module}.py hides the module `{module}` from every rank")


def test_an_error_of_a_section_that_is_gone_is_refused(course: Small, capsys: pytest.CaptureFixture):
    course["assets/errors.md"] = "| `it broke` | [How it breaks](02_second.ipynb) |\n"
    refused(course, capsys, f"assets/errors.md: {SECOND} has no section “How it breaks”")


def test_a_program_may_have_100_lines_and_fast_150(course: Small, capsys: pytest.CaptureFixture):
    course.replace(SECOND, "%%writefile alpha.py", "%%writefile fast.py")
    course["scripts/lessons/fast.py"] = "x = 1\n" * 150
    course["scripts/lessons/alpha.py"] = ALPHA.replace("    print(total)\n", "    print(total)\n" * 81)
    assert len(course["scripts/lessons/alpha.py"].splitlines()) == 100
    assert course.build() == 0
    course["scripts/lessons/fast.py"] += "x = 1\n"
    refused(course, capsys, "scripts/lessons/fast.py: 151 lines; this program may have 150.")


def test_in_the_workshop_a_program_must_come_before_its_launch(course: Small, capsys: pytest.CaptureFixture):
    course.replace(FIRST, 'python tags=["workshop"]\n%%writefile alpha', "python\n%%writefile alpha")
    course.replace(SECOND, "python\n%%writefile alpha", 'python tags=["workshop"]\n%%writefile alpha')
    refused(course, capsys, "cell 8: it needs alpha.py, which no cell before writes")


def test_defaults_clash_only_where_the_workshop_uses_both(course: Small):
    assert "STEPS = 3 if GPU else 2" in course[FIRST] and "STEPS = 99" in course[SECOND]
    assert "STEPS = 99" not in course["notebooks/workshop.ipynb"]


# ---- languages


@pytest.mark.parametrize(
    "text",
    [
        "# Title · 標題\nOne.\n\n一。",
        "One.\n\n一。\n\nTwo.\n\n二。",
        "- one\n- two\n\n- 一個\n- 兩個",
        "- one\n\n- two\n\n- 一個\n\n- 兩個",
        "1. one\n2. two\n\n1. 第一\n2. 第二",
        "> One.\n>\n> 一。",
        "| a word · 詞 | 1 |\n| --- | --- |\n| more | 2 |",
        "| `a` | 1 |\n| --- | --- |",
        "One.\n\n```text\nfenced English\n\nmore\n```\n\n一。",
        "One.\n\n````\n```\nEnglish\n```\n````\n\n一。",
        "One.\n\n<!-- a remark\n\nin English -->\n\n一。",
        "One.\n\n![an English caption](figure.png)\n\n一。",
        "[![Open in Kaggle](https://kaggle.com/badge.svg)](https://www.kaggle.com/notebooks/welcome?src=a)",
        "One.\n\n$$\\text{loss of one} = \\frac{sum}{count}$$\n\n一。",
        "Look it up.\n\n見[文件](a/long/path/of_many_words.md)",
        "Call it.\n\n呼叫 `all reduce then scatter`",
        "Next: [06 · DDP](06_ddp.ipynb).\n\n下一課：[06 · DDP](06_ddp.ipynb)。",
        "A rank (編號) is a process of its own.\n\nDDP、FSDP 與 all-reduce、reduce-scatter。",
        "The call.\n\n`loss.backward()` 用 `DistributedDataParallel` 算。",
        "Memory.\n\n在行程內存取、寫進程式、把連線程式關掉，一臺台北的電腦。",
        "",
    ],
)
def test_two_languages_in_turn(text: str):
    assert check_languages(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("One.", "the last English paragraph lacks its 中文"),
        ("One.\n\n一。\n\nTwo.", "the last English paragraph lacks its 中文"),
        ("One.\n\nTwo.\n\n一。\n\n二。", "“Two.” is English where 中文 is expected"),
        ("一。\n\nOne.", "“一。” is 中文 where English is expected"),
        ("One.\n\n一。\n\n二。", "“二。” is 中文 where English is expected"),
        ("One.\n\n- one\n\n一。", "“- one” is English where 中文 is expected"),
        ("# Title", "“# Title” lacks 中文"),
        ("# 標題", "“# 標題” lacks English"),
        ("# Title · 標題\nOne.", "the last English paragraph lacks its 中文"),
        ("| only English | 1 |", "lacks 中文"),
        ("One.\n\n一个网络。", "simplified characters 个网络"),
        ("One.\n\n默認的線程。", "線程 (write 執行緒), 默認 (write 預設)"),
    ],
)
def test_what_breaks_the_rule_of_two_languages(text: str, problem: str):
    assert problem in check_languages(text)


def test_simplified_is_what_big5_does_not_hold_among_its_common_characters():
    assert [c for c in "台后里面干只向才体网数这個體網數這" if simplified(c)] == list("体网数这")


def test_opencc_confirms_every_word_that_it_knows():
    to_simplified, plain, taiwan = (OpenCC(name).convert for name in ("t2s", "s2tw", "s2twp"))
    opencc = {word: taiwan(to_simplified(word)) for word in TAIWAN}
    known = {word: said for word, said in opencc.items() if said != plain(to_simplified(word))}
    ours = {word for word, said in known.items() if said != TAIWAN[word]}
    assert len(known) > 15
    assert ours == {"進程", "顯存", "集合通信", "回調"}  # the glossary has better ones
    assert 25 <= len(TAIWAN) <= 32
    for word in TAIWAN:
        assert not check_languages(f"One.\n\n{TAIWAN[word]}的說明。"), word
        assert not INNOCENT.search(word)
        assert word in check_languages(f"One.\n\n這個{word}。")
