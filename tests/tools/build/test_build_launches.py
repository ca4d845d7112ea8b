"""Launches: every starter of launch.py's list may begin one; a look at a program is none."""

import ast

import pytest
from IPython.core.inputtransformer2 import TransformerManager
from small_course import FIRST, PROGRAM, ROOMS, Small, refused

from course.launches import awaited, begun, launch_of, starters, starts_something

pytestmark = pytest.mark.quick

LAUNCH = "!torchrun --standalone --nproc-per-node=2 alpha.py --steps {STEPS // 1}"
GUARD = 'if __name__ == "__main__":\n    main()'


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("!torchrun alpha.py", "alpha.py"),
        ("!torchrun --nproc-per-node={RANKS * 2} alpha.py --steps {STEPS // 1}", "alpha.py"),
        ("!OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo torchrun alpha.py beta.py", "alpha.py"),
        ("!python alpha.py --steps 3", "alpha.py"),
        ("!python -m torch.distributed.run --nproc-per-node=2 alpha.py", "alpha.py"),
        ("!accelerate launch --config_file two.yaml alpha.py", "alpha.py"),
        ("!sbatch --nodes=2 job.sh", "job.sh"),
        ("!srun --ntasks=2 python alpha.py", "alpha.py"),
        ("!g++ -shared more.cpp -o more.so", "more.cpp"),
        ("!torchrun alpha.py\n!torchrun beta.py", None),
        ("!torchrun alpha.py | tee log", None),
        ("!torchrun alpha.py > log", None),
        ("!torchrun alpha.py &", None),
        ("!torchrun $(ls alpha.py)", None),
        ("!torchrun --help", None),
        ("!torchrun scripts/alpha.py", None),
        ("!pythonic alpha.py", None),
        ("!cat alpha.py", None),
        ("torchrun alpha.py", None),
        ("x = !torchrun alpha.py", None),
    ],
)
def test_a_launch_and_its_program(line: str, program: str | None):
    launch = launch_of(line)
    assert (launch and launch.program) == program


@pytest.mark.parametrize(
    ("cell", "starts"),
    [
        ("!cat alpha.py", False),
        ("!diff alpha.py beta.py | head -5", False),
        ("!which torchrun", False),
        ("!python --version", False),
        ("!nvidia-smi", False),
        ("# !torchrun alpha.py", False),
        ('print("torchrun alpha.py")', False),
        ('text = """\n!torchrun alpha.py\n"""', False),
        ("!torchrun --help", True),
        ("!cat alpha.py && python alpha.py", True),
        ("!time python alpha.py", True),
        ("!nohup torchrun alpha.py &", True),
        ("!bash job.sh", True),
        ("%run alpha.py", True),
        ("%%bash\ncd /tmp\npython3 alpha.py", True),
        ("for n in range(3):\n    !torchrun alpha.py", True),
        ("lines = !python alpha.py", True),
    ],
)
def test_what_starts_a_program_in_any_dress(cell: str, starts: bool):
    tree = ast.parse(TransformerManager().transform_cell(cell))
    assert starts_something(tree) == starts


def test_settings_of_the_environment_may_stand_in_front(course: Small):
    course.replace(FIRST, LAUNCH, f"!OMP_NUM_THREADS={{STEPS}} {LAUNCH[1:]}")
    assert course.build() == 0


def test_their_parameters_must_be_set_too(course: Small, capsys):
    course.replace(FIRST, LAUNCH, f"!OMP_NUM_THREADS={{THREADS}} {LAUNCH[1:]}")
    refused(course, capsys, "cell 8: no parameters cell before sets {'THREADS'}")


def test_a_program_that_python_starts_needs_a_guard_and_no_record(course: Small, capsys):
    course.replace(FIRST, LAUNCH, "!python alpha.py")
    course.replace(PROGRAM, "@record\n", "")
    assert course.build() == 0
    course.replace(PROGRAM, GUARD, "main()")
    refused(course, capsys, 'cell 8: alpha.py lacks `if __name__ == "__main__":` at its end.')


RECORDED = {
    "torchrun": True,
    "python": False,
    "python -m torch.distributed.launch": True,
    "python -m torch.distributed.run": True,
    "accelerate launch": True,
    "deepspeed": True,
    "sbatch": False,
    "srun": False,
    "g++": False,
}


@pytest.mark.parametrize("starter", starters())
def test_what_starts_ranks_as_torchrun_does_needs_a_recorded_main(course: Small, starter: str):
    course.replace(FIRST, LAUNCH, f"!{starter} alpha.py")
    course.replace(PROGRAM, "@record\n", "")
    assert course.build() == RECORDED[starter]


HELLO = """\
```python
%%writefile hello.py
```

```python
!torchrun --standalone --nproc-per-node=2 hello.py
```

```python
from launch import printed

printed("hello")
```

### Exercise 1"""


def test_a_first_program_needs_neither_but_defines_and_imports_nothing_of_ours(
    course: Small, capsys
):
    path = f"{ROOMS}/01_first/hello.py"
    lines = "import os\n\nprint(os.environ.get('RANK'))\n"
    course[path] = lines
    course.replace(FIRST, "### Exercise 1", HELLO)
    assert course.build() == 0
    for more in ("import launch\n", "def twice(x):\n    return 2 * x\n"):
        course[path] = lines + more
        refused(course, capsys, "hello.py lacks `@record` on `main`")


@pytest.mark.parametrize("starter", starters())
def test_every_starter_is_watched(course: Small, capsys, starter: str):
    course.replace(FIRST, LAUNCH, f"!{starter} alpha.py")
    assert course.build() == 0
    course.replace(FIRST, 'alpha = result("alpha")', "alpha = 1")
    refused(course, capsys, "cell 9: read the launch of alpha.py here")


BESIDE = 'second = Begun(f"torchrun --node-rank=1 alpha.py --steps {STEPS}")'
WAITS = "assert second.wait() == 0"


def beside(course: Small, begin: str = BESIDE, waits: str = WAITS) -> None:
    """A launch that goes on beside the one in the lesson's eighth cell."""
    cell = f'```python tags=["workshop"]\n{LAUNCH}'
    tagged = f'```python tags=["workshop"]\nfrom launch import Begun\n\n{begin}\n```'
    course.replace(FIRST, cell, f"{tagged}\n\n{cell}")
    course.replace(FIRST, 'alpha = result("alpha")', f'alpha = result("alpha")\n{waits}')


def test_a_launch_may_begin_beside_another(course: Small):
    beside(course)
    assert course.build() == 0


@pytest.mark.parametrize(
    ("begin", "waits", "problem"),
    [
        ("second = Begun('torchrun --help')", WAITS, "cell 8: a launch beside others is"),
        ("second = Begun('torchrun alpha.py &')", WAITS, "cell 8: a launch beside others is"),
        ("Begun('torchrun alpha.py')", "", "cell 8: a launch beside others is"),
        ("second = Begun('torchrun later.py')", WAITS, "cell 8: it needs later.py, which no cell"),
        (f"{BESIDE}\nagain = {BESIDE.partition('= ')[2]}", WAITS, "add `again.wait()`"),
        (BESIDE, "other.wait()", "no cell waits for alpha.py: add `second.wait()`."),
    ],
)
def test_a_launch_beside_others_is_kept_and_waited_for(
    course: Small, capsys, begin: str, waits: str, problem: str
):
    beside(course, begin, waits)
    refused(course, capsys, problem)


def test_two_launches_beside_others_need_two_names(course: Small, capsys):
    beside(course, f'{BESIDE}\n```\n\n```python tags=["workshop"]\n{BESIDE}')
    refused(course, capsys, "cell 9: `second` still goes on here: a cell before lacks")


def test_the_command_of_a_launch_beside_others_is_read_as_it_is_written():
    launch = begun(ast.parse(BESIDE))["second"]
    assert (launch.starter, launch.program) == ("torchrun", "alpha.py")
    assert begun(ast.parse("x = Begun(command)")) == {"x": None}
    assert awaited(ast.parse("second.wait(3); lock.acquire(); agents[0].wait()")) == {"second"}
