"""A course of two lessons, small enough to be built in a moment, for the tests of the build."""

import json
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output

from course.build import __main__ as build
from course.outputs import keep_outputs

LESSON = """\
---
jupyter:
  course:
    gpu_minutes: 5
    needs: []
    quick:
      STEPS: 1
---

# 01 · First · 第一課

Two ranks count.

兩個 rank 在數數。

Afterwards you can count.

學完之後，你會數數。

```python tags=["fold", "workshop"]
%%writefile launch.py
```

```python tags=["parameters"]
from shutil import which

GPU = which("nvidia-smi") is not None
STEPS = 3 if GPU else 2
UNUSED = 1
```

```python tags=["workshop"]
from launch import failure, result
```

What changes from one program to the next:

從一支程式到下一支，改變的是：

```diff alpha.py beta.py
```

### Exercise 1 · 練習 1

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

### Exercise 2 · 練習 2

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
    gpu_minutes: 0
    needs: ["01"]
---

# 02 · Second · 第二課

Here is another program.

這裡有另一支程式。

Afterwards you can launch it.

學完之後，你會啟動它。

<!-- #region tags=["workshop"] -->
Again, with another program.

換一支程式再來一次。
<!-- #endregion -->

```python tags=["fold"]
%%writefile launch.py tools.py
```

```python tags=["parameters"]
SIZE, (FIRST, *REST) = 8, (1, 2, 3)
RATE: float = 0.1  # learning rate
RATE *= 2
STEPS = 99
```

### Exercise 1 · 練習 1

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

### Exercise 2 · 練習 2

```python
# BEGIN SOLUTION
rest = 2
# STUB rest = 0
# END SOLUTION
print("✓" if rest == len(REST) else "✗ not yet")
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
TABLE = "<!-- {}: filled by make build -->\n<!-- end -->\n\n"
REGIONS = "".join(map(TABLE.format, ("doors", "first", "lessons")))
README = f"# Course · 課程\n\n{REGIONS}The end.\n"
ROUTES = f"# Routes · 路線\n\n{TABLE.format('routes')}"
COURSE = """\
[[door]]
english = "two ranks"
chinese = "兩個 rank"
lessons = ["02"]
links = [
    { english = "Second", chinese = "第二", to = "notebooks/02_second.ipynb" },
    { english = "Texts", chinese = "訊息", to = "assets/error-texts.md" },
]

[[door]]
english = "an error"
chinese = "一個錯誤"
minutes = 2
links = [{ english = "Texts", chinese = "訊息", to = "assets/error-texts.md" }]

[[part]]
english = "Early"
chinese = "前面"
use = "first"
use_chinese = "先學"
done = [["count", "數數"]]
[part.lessons]
01 = ["count to three", "數到三"]

[[part]]
english = "Late"
chinese = "後面"
use = "then"
use_chinese = "再學"
[part.lessons]
02 = ["count again", "再數一次"]
"""
ERROR_TEXTS = f"# Error texts · 錯誤訊息\n\n{TABLE.format('errors')}"
SLIDES = """\
<pre class="code" data-src="alpha.py#loop" id="a">old</pre>
<pre data-src="alpha.py#L8-L9"></pre>
<span data-run="bench.json#two / one#ratio">9</span> on \
<span class="n" data-run="bench.json#machine#cores"></span>
"""
ROW = {"row": "two / one", "ratio": 1.8765, "low": 1.5, "high": 1.9, "span": "interval"}
RUN = json.dumps({"machine": {"cores": 2}, "rows": [ROW]})

SETTINGS = {
    "language": "python",
    "kernel_type": "notebook",
    "is_private": True,
    "enable_gpu": True,
    "enable_internet": True,
    "machine_shape": "NvidiaTeslaT4",
    "dataset_sources": ["someone/pictures"],
}
WITHOUT_GPU = {
    "title": "Second on a CPU",
    "slug": "second-on-a-cpu",
    "code_file": "notebooks/02_second.ipynb",
    "enable_gpu": False,
}
KERNELS = {
    "owner": "somebody",
    "repository": "us/course",
    "defaults": SETTINGS,
    "kernels": [WITHOUT_GPU],
}

LISTED = "kaggle-metadata.json"
DECK = "assets/deck.html"
FIRST = "notebooks/src/01_first.md"
SECOND = "notebooks/src/02_second.md"
ROOMS = "scripts/lessons"
PROGRAM = f"{ROOMS}/common/alpha.py"
TOOLBOX = f"{ROOMS}/common/tools.py"
LAUNCHER = f"{ROOMS}/common/launch.py"
BESIDE = f"{ROOMS}/02_second/beta.py"
SOURCES = {
    FIRST: LESSON,
    SECOND: SECOND_LESSON,
    PROGRAM: ALPHA,
    TOOLBOX: TOOLS,
    BESIDE: BETA,
    LAUNCHER: "def result(name): ...\n",
    "README.md": README,
    "assets/routes.md": ROUTES,
    "assets/course.toml": COURSE,
    "assets/error-texts.md": ERROR_TEXTS,
    DECK: SLIDES,
    "assets/bench.json": RUN,
    LISTED: json.dumps(KERNELS),
}


def code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


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
        paths = [path for path in sorted(self.root.rglob("*")) if path.is_file()]
        return {str(path): (path.stat().st_mtime_ns, path.read_text()) for path in paths}

    def path(self, name: str) -> Path:
        return self.root / "notebooks" / f"{name}.ipynb"

    def notebook(self, name: str = "01_first") -> NotebookNode:
        return nbformat.read(self.path(name), as_version=4)

    def code(self, name: str = "01_first") -> list[str]:
        return [cell.source for cell in code(self.notebook(name))]

    def run(self, name: str = "01_first") -> None:
        """Give every code cell an output, as a run does, and the record of the machine."""
        executed = self.notebook(name)
        for number, cell in enumerate(code(executed)):
            cell.outputs = [new_output("stream", text=f"output {number}\n")]
            cell.execution_count = number + 1
        committed = self.notebook(name)
        kept = keep_outputs(executed, committed, {"torch": "2.10.0", "device": "CPU"})
        assert kept == len(self.code(name))
        nbformat.write(committed, self.path(name))

    def outputs(self, name: str = "01_first") -> list[bool]:
        return [bool(cell.outputs) for cell in code(self.notebook(name))]


def refused(course: Small, capsys, message: str, *options: str) -> None:
    """The build says why it does not accept the sources, and writes nothing."""
    before = course.files()
    assert course.build(*options) == 1
    assert message in capsys.readouterr().err
    assert course.files() == before
