"""Every source that the build must refuse, with a message that names the place and the remedy."""

from pathlib import Path

import pytest
from small_course import DECK, FIRST, LISTED, PROGRAM, SECOND, TOOLBOX, Small, refused

pytestmark = pytest.mark.quick

LAUNCH = "!torchrun --standalone --nproc-per-node=2 alpha.py --steps {STEPS // 1}"
READING = 'alpha = result("alpha")'
TAGGED = 'python tags=["workshop"]\n'
DIFF = "```diff alpha.py beta.py"
GUARD = 'if __name__ == "__main__":\n    main()'
NO_LAUNCH = "cell 8: a launch is `!torchrun"
NO_PAIR = "cell 11: BEGIN SOLUTION (or LIVE), STUB and END"
NO_MAIN = "cell 8: alpha.py lacks `@record` on `main`"
NO_HELPER = "cell 8: it needs beta.py, which no cell before writes"
LONG = "\n".join("abcdefghijklm")

# In each file: what is replaced, by what, and what the build must say.
LANGUAGES = {
    FIRST: {
        "translation": (
            "兩個 rank 在數數。",
            "",
            "cell 1: the last English paragraph lacks its 中文",
        ),
        "original": (
            "What changes from one program to the next:\n\n",
            "",
            "cell 5: “從一支程式到下",
        ),
        "simplified": ("在數數", "在数数", "cell 1: simplified characters 数数"),
        "mainland": ("兩個 rank", "兩個進程", "cell 1: not a word of Taiwan: 進程 (write 行程)"),
    },
    SECOND: {"heading": ("第二課", "Deux", "cell 1: “# 02 · Second · Deux” lacks 中文")},
}
CELLS = {
    FIRST: {
        "absent": ("%%writefile tools.py", "%%writefile tool.py", "cell 6: no room in scripts/le"),
        "not alone": (
            "%%writefile tools.py",
            "%%writefile tools.py\nx = 1",
            "cell 6: `%%writefile",
        ),
        "other kind": (
            "%%writefile tools.py",
            "%%writefile tools.md",
            "cell 6: `%%writefile NAME.py,",
        ),
        "stub outside": ("# END SOLUTION\n", "# END SOLUTION\n# STUB x = 0\n", NO_PAIR),
        "solution without end": ("# END SOLUTION\n", "", NO_PAIR),
        "diff by hand": (f"{DIFF}\n", f"{DIFF}\n-a\n+b\n", "cell 5: a diff names two programs"),
        "diff of one": (DIFF, "```diff alpha.py", "cell 5: a diff names two programs"),
        "diff of nothing": (
            DIFF,
            "```diff alpha.py gamma.py",
            "cell 5: no room in scripts/lessons",
        ),
        "long cell": ("assert guess == 42", LONG, "cell 12: a cell has 12 lines"),
        "cell in error": (
            "assert guess == 42",
            "assert guess = 42",
            "01_first.md, cell 12, line 1",
        ),
    },
}
PROGRAMS = {
    PROGRAM: {
        "in error": ("total = 0", "total = = 0", "alpha.py, line 11"),
        "without record": ("@record\n", "", NO_MAIN),
        "without guard": (GUARD, "main()", NO_MAIN),
        "guard not at the end": (GUARD, f"{GUARD}\nprint()", NO_MAIN),
        "guard without main": (GUARD, GUARD.replace("main()", "print()"), NO_MAIN),
        "two imports": ("from tools import count", "import tools, beta", NO_HELPER),
        "late import": ("total = 0", "import beta\n    total = 0", NO_HELPER),
        "starts another": ("total = 0", 'total = len("beta.py")', NO_HELPER),
    },
    TOOLBOX: {
        "without stub": ("    # STUB return 0\n", "", "a solution without a `# STUB …` line"),
        "stub in error": ("# STUB return 0", "# STUB return = 0", "tools.py, line 6"),
    },
}
LAUNCHES = {
    FIRST: {
        "not written": ("%%writefile alpha.py", "%%writefile beta.py", "cell 8: it needs alpha.py"),
        "no import": ("%%writefile tools.py", "%%writefile beta.py", "cell 8: it needs tools.py"),
        "no helper": ("%%writefile launch.py", "%%writefile beta.py", "cell 4: it needs launch.py"),
        "not read": (READING, "alpha = 1", "cell 9: read the launch of alpha.py here"),
        "another is read": (READING, 'result("beta")', "cell 9: read the launch of alpha.py here"),
        "last one not read": ("assert guess == 42", LAUNCH, "cell 12: no cell reads this launch"),
        "not launched": (
            "assert guess == 42",
            'result("beta")',
            "no cell before launches {'beta'}",
        ),
        "two in a cell": (LAUNCH, f"{LAUNCH}\n{LAUNCH}", NO_LAUNCH),
        "among code": (LAUNCH, f"x = 1\n{LAUNCH}", NO_LAUNCH),
        "in a branch": (LAUNCH, f"if STEPS:\n    {LAUNCH}", NO_LAUNCH),
        "into a variable": (LAUNCH, f"said = {LAUNCH}", NO_LAUNCH),
        "in a pipe": (LAUNCH, f"{LAUNCH} | tee log", NO_LAUNCH),
        "after a command": (LAUNCH, f"!cd . && {LAUNCH[1:]}", NO_LAUNCH),
        "with a limit": (LAUNCH, f"!timeout 9 {LAUNCH[1:]}", NO_LAUNCH),
        "in the shell": (LAUNCH, f"%%bash\n{LAUNCH[1:]}", NO_LAUNCH),
        "python in the shell": (LAUNCH, "%%bash\npython alpha.py", NO_LAUNCH),
        "by magic": (LAUNCH, "%run alpha.py", NO_LAUNCH),
        "no parameter": (
            "{STEPS // 1}",
            "{STEPS // FACTOR}",
            "no parameters cell before sets {'FAC",
        ),
        "no expression": ("{STEPS // 1}", "{STEPS //}", "01_first.md, cell 8, line 1"),
    },
}
HEADING = "### Exercise 2 · 練習 2"
TWICE = "01_first.md: “Exercise 1 · 練習 1”: another section has this heading"
TOO_FEW = "01_first.md: 1 exercise, at least 2 wanted, each under its own heading `### Ex"
NO_GOAL = "01_first.md: its first cell has a title, a sentence in each language, “Afterwards …”"
UNKNOWN = "01_first.md: `quick` names M, which the parameters cell does not set."
LESSONS = {
    FIRST: {
        "nothing afterwards": (
            "Afterwards you can count.\n\n學完之後，你會數數。\n\n",
            "",
            NO_GOAL,
        ),
        "afterwards in other words": ("Afterwards you", "Then you", NO_GOAL),
        "afterwards in English alone": ("學完之後，你", "你", NO_GOAL),
        "quick without parameter": ("STEPS: 1", "STEPS: 1\n      M: 2", UNKNOWN),
        "one exercise": (HEADING, "### More · 更多", TOO_FEW),
        "two of one number": (HEADING, "### Exercise 1 · 練習 1", TWICE),
        "two numbers": (HEADING, "### Exercise 2 · 練習 3", TOO_FEW),
        "nothing to do": (HEADING, f"{HEADING}\n## The end · 結束", TOO_FEW),
        "none": ("### Exercise", "### Training", "01_first.md: 0 exercises, at least 2 wanted"),
    },
}
WORKSHOP = {
    FIRST: {
        "no name": (f"{TAGGED}from launch", "python\nfrom launch", "Undefined name `result`"),
        "program": (f"{TAGGED}%%writefile alpha", "python\n%%writefile alpha", "it needs alpha.py"),
        "reading": (f"{TAGGED}alpha =", "python\nalpha =", "read the launch of alpha.py here"),
        "launch": (f"{TAGGED}!torchrun", "python\n!torchrun", "no cell before launches {'alpha'}"),
    },
    SECOND: {
        "two defaults": ("{SIZE} --first {FIRST}", "{STEPS}", "the workshop has another STEPS"),
    },
}
PAGES = {
    DECK: {
        "unknown region": ("alpha.py#loop", "alpha.py#loops", "alpha.py#loops is nowhere"),
        "lines beyond the end": ("#L8-L9", "#L8-L99", "alpha.py#L8-L99 is nowhere"),
        "lines in reverse": ("#L8-L9", "#L9-L7", "alpha.py#L9-L7 is nowhere"),
        "no place": ("alpha.py#loop", "alpha.py", "alpha.py is nowhere"),
        "unknown row": ("two / one", "one / two", "bench.json#one / two#ratio is nowhere"),
        "unknown number": ("#ratio", "#ration", "bench.json#two / one#ration is nowhere"),
        "unknown run": (
            "bench.json#machine",
            "run.json#machine",
            "run.json#machine#cores is nowhere",
        ),
        "number without a place": ("#machine#cores", "", "bench.json is nowhere"),
    },
    "README.md": {"no table": ("<!-- end -->", "", "it lacks its marked region")},
    "assets/error-texts.md": {"no table": ("<!-- end -->", "", "it lacks its marked region")},
    FIRST: {
        "no GPU minutes": (
            "    gpu_minutes: 5\n",
            "",
            "01_first.md: give `gpu_minutes` in the front matter: those of a whole run",
        ),
        "GPU minutes in words": (
            "gpu_minutes: 5",
            "gpu_minutes: five",
            "01_first.md: give `gpu_minutes` in the front matter: those of a whole run",
        ),
        "no title": ("# 01 · First", "# First", "01_first.md: begin with `# 03 · Title · 標題`."),
        "other number": ("# 01 · F", "# 98 · F", "01_first.md: the heading says 98, the file 01."),
    },
    SECOND: {
        "a GPU that Kaggle does not give": (
            "gpu_minutes: 0",
            "gpu_minutes: 3",
            "`gpu_minutes` is 3, and kaggle-metadata.json gives notebooks/02_second.ipynb no GPU",
        ),
    },
    LISTED: {"typo in the list": ("enable_gpu", "enable_gpus", "defaults: ")},
}


def place(path: str, message: str) -> str:
    """The message with the lesson in front, where it begins with a cell's number."""
    lesson = path if path == SECOND else FIRST
    return f"{lesson}, {message}" if message.startswith("cell ") else message


IMPORTED = "%%writefile launch.py tools.py"
FILES = {
    SECOND: {
        "launched": (IMPORTED, f"{IMPORTED} beta.py", "beta.py is launched: write it in a cell"),
        "unused": (IMPORTED, f"{IMPORTED} alpha.py", "nobody uses alpha.py: leave it out"),
        "not first": (IMPORTED, "1 + 1\n```\n\n```python\n" + IMPORTED, "the first of all code"),
        "apart": (
            f"{IMPORTED}\n",
            '%%writefile launch.py\n```\n\n```python tags=["fold"]\n%%writefile tools.py\n',
            "tools.py is only imported: name it in the first code cell",
        ),
        "two cells of parameters": (
            "SIZE, (FIRST",
            'A = 1\n```\n\n```python tags=["parameters"]\nSIZE, (FIRST',
            "2 cells are tagged `parameters`; papermill takes the first",
        ),
    },
    TOOLBOX: {"end mark": ('"""', '"""\nEND\n', "tools.py has a line END, which ends a file")},
}


CASES = {
    f"{Path(path).name}: {name}": (path, old, new, place(path, message))
    for group in (LANGUAGES, CELLS, PROGRAMS, LAUNCHES, LESSONS, WORKSHOP, PAGES, FILES)
    for path, cases in group.items()
    for name, (old, new, message) in cases.items()
}


@pytest.mark.parametrize(("path", "old", "new", "message"), CASES.values(), ids=CASES)
def test_refused(course: Small, capsys, path: str, old: str, new: str, message: str):
    course.replace(path, old, new)
    refused(course, capsys, message)


def test_an_error_of_a_section_that_is_gone_is_refused(course: Small, capsys):
    course["assets/errors.md"] = "| `it broke` | [How it breaks](02_second.ipynb) |\n"
    refused(course, capsys, f"assets/errors.md: {SECOND} has no section “How it breaks”")


def test_in_the_workshop_a_program_must_come_before_its_launch(course: Small, capsys):
    course.replace(FIRST, f"{TAGGED}%%writefile alpha", "python\n%%writefile alpha")
    course.replace(SECOND, "python\n%%writefile alpha", f"{TAGGED}%%writefile alpha")
    refused(course, capsys, "cell 8: it needs alpha.py, which no cell before writes")


def test_defaults_clash_only_where_the_workshop_uses_both(course: Small):
    assert "STEPS = 3 if GPU else 2" in course[FIRST] and "STEPS = 99" in course[SECOND]
    assert "STEPS = 99" not in course["notebooks/workshop.ipynb"]
