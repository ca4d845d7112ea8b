"""Forty made-up sheets of one exam, graded; each gets exactly its points.

Run:  python tests/campaigns/sheets.py                # all of them
      python tests/campaigns/sheets.py empty endless  # those two

A sheet is the perfect one with something else in it. Prints a row for each; exits 1 if one gets
other points.
"""

import csv
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from nbformat import NotebookNode

from course import ROOT
from course.exam.paper import SECRET, Exam
from course.lesson import Lesson
from course.outputs import as_text

SEED = 2755  # its report blames an innocent rank; two of its three models need FSDP
SECRET_TEXT = "for tests"
OTHER = 2756
EXAM = Exam(ROOT, SEED, SECRET_TEXT)
CELLS = Lesson.of(EXAM.book(False)).cells
PLACES = [place for place, cell in enumerate(CELLS) if cell.is_code and cell.regions]
Change = Callable[[NotebookNode], object]


def solved(*tasks: int) -> NotebookNode:
    """A sheet with these tasks solved, as the key solves them."""
    sheet = EXAM.book(False)
    key = {cell.id: cell.source for cell in EXAM.book(True).cells}
    for task in tasks:
        cell = sheet.cells[PLACES[task - 1]]
        cell.source = key[cell.id]
    return sheet


def perfect(*but: int) -> NotebookNode:
    return solved(*[task for task in range(1, 9) if task not in but])


def swapped(task: int, *pairs: tuple[str, str]) -> NotebookNode:
    """The perfect sheet with pieces of one answer replaced; each piece is there once."""
    sheet = perfect()
    cell = sheet.cells[PLACES[task - 1]]
    for old, new in pairs:
        assert cell.source.count(old) == 1, (old, cell.source)
        cell.source = cell.source.replace(old, new)
    return sheet


def answer(task: int, lines: str) -> NotebookNode:
    """The perfect sheet with other lines in one task's region."""
    sheet = perfect(task)
    cell = sheet.cells[PLACES[task - 1]]
    head, mark, _ = cell.source.partition("▼▼▼")
    cell.source = f"{head}{mark}\n{lines}"
    return sheet


def evaluates(lines: str) -> NotebookNode:
    """The perfect sheet with another body of `evaluate`."""
    sheet = perfect()
    cell = sheet.cells[PLACES[4]]
    body = "".join(f"    {line}\n" for line in lines.strip().splitlines())
    whole = r"(def evaluate\(model, rows\):\n).*?\n\n\n(?=if __name__)"
    cell.source = re.sub(whole, lambda match: f"{match[1]}{body}\n\n", cell.source, flags=re.S)
    return sheet


def without(fault: str) -> NotebookNode:
    """The perfect sheet with one fault of mend.py left in it."""
    right, wrong = FAULTS[fault]
    return swapped(1, (right, wrong))


FAULTS = {
    "batch": ("share = 16 // ranks", "share = 16"),
    "share": ("sampler=sampler", "shuffle=True"),
    "noise": ("40 + rank", "40"),
    "epoch": ("set_epoch(epoch)", "set_epoch(3)"),
    "zero": ("optimizer.zero_grad()", "optimizer.zero_grad"),
    "call": ("output = ddp_model(x)", "output = model(x)"),
    "graph": ("loss.item()", "loss"),
    "schedule": ("    scheduler.step()\n", "        scheduler.step()\n"),
    "guard": ("if rank == 0:", "if rank >= 0:"),
    "names": ("torch.save(model.", "torch.save(ddp_model."),
}


def without_names(sheet: NotebookNode) -> NotebookNode:
    """As a site may give it back: no metadata, other ids."""
    sheet.metadata = NotebookNode()
    for number, cell in enumerate(sheet.cells):
        cell.id = f"cell-{number}"
        cell.metadata = NotebookNode()
    return sheet


LOSE_ALL = 'print("✓ " * 100)\nimport builtins\nbuiltins.print = lambda *_, **__: None'
SEARCH = """
import gc, os, re, sys
from pathlib import Path
texts = [str(each) for each in gc.get_objects() if isinstance(each, (dict, str))]
for place in [*sys.path, os.getcwd(), "{tools}", "/room", "/proc/self", f"/proc/{{os.getppid()}}"]:
    for path in Path(place or ".").glob("*"):
        try:
            if path.is_file() and path.suffix in ("", ".py", ".json", ".ipynb"):
                texts.append(path.read_bytes()[:200_000].decode(errors="replace"))
        except OSError:
            pass
for name in ("first", "line", "ended"):
    found = [re.search(rf'{{name}}"?\\s*[:=]\\s*(\\d+)\\b', text) for text in texts]
    globals()[name] = next((int(match[1]) for match in found if match), 0)
"""
WRITES = """
from pathlib import Path
for place in (".", "/room", "/tmp"):
    for name in ("json", "torch", "given", "mend", "guard", "ranks"):
        try:
            Path(place, name + ".py").write_text("raise SystemExit")
        except OSError:
            pass
"""
MEANS = """
own = Subset(rows, range(dist.get_rank(), len(rows), dist.get_world_size()))
x, y = next(iter(DataLoader(own, 1000)))
mean = torch.nn.functional.mse_loss(model(x), y).detach()
dist.all_reduce(mean)
return mean.item() / dist.get_world_size()
"""
SAMPLER = """
from torch.utils.data import DistributedSampler
own = DataLoader(rows, 1000, sampler=DistributedSampler(rows, shuffle=False))
x, y = next(iter(own))
total = torch.tensor([((model(x) - y) ** 2).sum().item(), len(x)], dtype=torch.float64)
dist.all_reduce(total)
return (total[0] / total[1]).item()
"""
SLICE = """
x, y = rows[dist.get_rank() :: dist.get_world_size()]
total = torch.tensor([((model(x) - y) ** 2).sum().item(), len(x)], dtype=torch.float64)
dist.all_reduce(total)
return (total[0] / total[1]).item()
"""
EVERYTHING = """
x, y = next(iter(DataLoader(rows, 1000)))
return torch.nn.functional.mse_loss(model(x), y).item()
"""
ALONE = """
own = Subset(rows, range(dist.get_rank(), len(rows), dist.get_world_size()))
x, y = next(iter(DataLoader(own, 1000)))
return torch.nn.functional.mse_loss(model(x), y).item()
"""
NOT_EMPTY = """
own = Subset(rows, range(dist.get_rank(), len(rows), dist.get_world_size()))
x, y = next(iter(DataLoader(own, 1000)))
total = torch.tensor([((model(x) - y) ** 2).sum().item(), len(x)], dtype=torch.float64)
dist.all_reduce(total)
return (total[0] / total[1]).item()
"""
IN_OTHER_WORDS = """
import numpy, torch
step = torch.tensor({step}.0)
longest = " {longest} ".upper()
sent = numpy.float64({sent})
paid = {paid} * 7 / 7
"""


def sheets() -> dict[str, tuple[int, Callable[[], NotebookNode]]]:
    """Of each sheet its points, and how it is made."""
    words = EXAM.words
    log, budget = words["log"], words["budget"]
    last = log.text.split("Root Cause")[1]
    blamed = re.search(r"rank +: (\d)", last)[1]
    deeper = re.search(r'File "(?!train).*line (\d+)', log.text)[1]
    named = {"step": budget.step, "sent": budget.sent, "paid": budget.pays}
    tools = ROOT / "scripts" / "course" / "grade"
    whole = "dist.get_world_size(), sampler"
    saving = "if rank == 0:\n    torch.save"
    return {
        "empty": (0, solved),
        "perfect": (100, perfect),
        "another seed": (0, lambda: Exam(ROOT, OTHER, SECRET_TEXT).book(True)),
        "another secret": (0, lambda: Exam(ROOT, SEED, "another").book(True)),
        "no names": (100, lambda: without_names(perfect())),
        "in other words": (
            100,
            lambda: answer(6, IN_OTHER_WORDS.format(longest=budget.longest, **named)),
        ),
        # mischief
        "prints ✓": (88, lambda: answer(4, LOSE_ALL)),
        "endless": (88, lambda: answer(6, "while True:\n    pass")),
        "endless program": (82, lambda: answer(1, "while True:\n    pass")),
        "reads": (88, lambda: answer(4, SEARCH.format(tools=tools))),
        "writes": (88, lambda: answer(2, WRITES)),
        "program writes": (100, lambda: swapped(1, ("import torch\n", f"import torch\n{WRITES}"))),
        "ends the kernel": (94, lambda: answer(7, "import os\nos._exit(0)")),
        "syntax": (88, lambda: answer(4, "first = = 1")),
        "raises": (92, lambda: swapped(4, ("line =", "line = 1 / 0 or"))),
        "no last line": (82, lambda: answer(3, "import torch\nprint(torch.")),
        # tempting wrong answers
        **{f"fault {name}": (97, lambda name=name: without(name)) for name in EXAM.faults},
        "no set_epoch": (97, lambda: swapped(3, ("    sampler.set_epoch(epoch)\n", ""))),
        "a whole batch each": (97, lambda: swapped(3, (f" // {whole}", ", sampler"))),
        "for two ranks": (97, lambda: swapped(3, (whole, "2, sampler"))),
        "all save": (97, lambda: swapped(3, (saving, "if True:\n    torch.save"))),
        "the wrapper saved": (97, lambda: swapped(3, ("save(student.", "save(wrapped."))),
        "past the wrapper": (97, lambda: swapped(3, ("wrapped(x)", "student(x)"))),
        "no goodbye": (97, lambda: swapped(3, ("dist.destroy_process_group()", ""))),
        "no sampler": (94, lambda: swapped(3, ("sampler=sampler", "shuffle=True"))),
        "blames the last": (96, lambda: swapped(4, (f"first = {log.first}", f"first = {blamed}"))),
        "the deeper line": (96, lambda: swapped(4, (f"line = {log.line}", f"line = {deeper}"))),
        "mean of means": (92, lambda: evaluates(MEANS)),
        "the sampler's rows": (88, lambda: evaluates(SAMPLER)),
        "a slice": (100, lambda: evaluates(SLICE)),
        "all rows on all": (88, lambda: evaluates(EVERYTHING)),
        "its own part": (92, lambda: evaluates(ALONE)),
        "no rank is empty": (96, lambda: evaluates(NOT_EMPTY)),
        "hides nothing": (
            97,
            lambda: swapped(6, (f"step = {budget.step}", f"step = {budget.step + budget.hidden}")),
        ),
        "sends to all": (
            97,
            lambda: swapped(6, (f"sent = {budget.sent}", f"sent = {budget.ranks * budget.size}")),
        ),
        "weights alone": (98, lambda: swapped(7, ('case_2 = "FSDP"', 'case_2 = "DDP"'))),
        "no momentum": (98, lambda: swapped(8, ("    optimizer.load_state_dict", "    ()  # "))),
        "no scheduler": (98, lambda: swapped(8, ("    scheduler.load_state_dict", "    ()  # "))),
        "the same epoch": (98, lambda: swapped(8, ('state["epoch"] + 1', 'state["epoch"]'))),
        "in place": (
            98,
            lambda: swapped(
                8, ('f"{path}.part")\n', "path)\n"), ('    os.replace(f"{path}.part", path)\n', "")
            ),
        ),
    }


def grade(names: list[str], folder: Path, *options: str) -> dict[str, dict[str, str]]:
    """Let course.grade grade these sheets, in a course that has nothing but the exam."""
    source = folder / "notebooks" / "src"
    source.mkdir(parents=True)
    shutil.copy(EXAM.path, source)
    (folder / SECRET).write_text(SECRET_TEXT)
    hand_in = folder / "sheets"
    hand_in.mkdir()
    known = sheets()
    for name in names:
        (hand_in / f"{name}.ipynb").write_text(as_text(known[name][1]()))
    command = [sys.executable, "-m", "course.grade", hand_in, "--root", folder]
    subprocess.run([*command, "--exam", str(SEED), *options], check=True)
    table = folder / "build" / "exam" / f"grades-{SEED}" / "grades.csv"
    with table.open(encoding="utf-8-sig", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def main() -> int:
    wanted = {name: points for name, (points, _) in sheets().items()}
    names = sys.argv[1:] or list(wanted)
    with tempfile.TemporaryDirectory() as folder:
        rows = grade(names, Path(folder))
        page = Path(folder) / "build" / "exam" / f"grades-{SEED}" / "index.html"
        (ROOT / "build").mkdir(exist_ok=True)
        shutil.copy(page, ROOT / "build" / "exam-campaign.html")
    lost = 0
    for name in names:
        got = int(rows[name]["points"])
        lost += got != wanted[name]
        verdict = "" if got == wanted[name] else f"  but {wanted[name]} wanted"
        print(f"{name:20} {got:4}{verdict}  {rows[name]['note'][:100]}")
    print(f"{len(names)} sheets, {lost} with other points than they should have")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
