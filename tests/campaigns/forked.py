"""Do forked launches compute what plain ones compute, with the lessons' own parameters?

Run:  python tests/campaigns/forked.py          # every lesson, as `make run` runs it
      python tests/campaigns/forked.py 06 09    # those two

Each notebook runs twice, plain and forked. After every launch, each rank's trained weights, torch's
random numbers and all reported values must be the same, bit for bit. Where they differ, the
notebook runs plain once more: what two plain runs do not agree on proves nothing. A line a lesson
goes into build/forks.txt as soon as it is known. Exits 1 if a lesson differs.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell

from course.lesson import Lesson

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
# Appended to devices.py, which nearly all programs import; not where it is the program.
WATCH = '\n\nif __name__ != "__main__":\n    import forked_record  # noqa'
FOUND = ROOT / "build" / "forks.txt"
# Values under such names are times, or belong to one run alone.
CLOCKS = re.compile(
    r"second|time|took|pace|span|speed|process|parent|\bpid|\bport|memory|peak|allocated|trace|clock"
    r"|pause|wait|idle|cost|looks|alive|_ms|_us|pushes"
)
# Arguments that each run chooses anew.
CHOSEN = re.compile(r"(--port|--owner) \d+")

# Two launches of these agree only by chance: `tune` trains on with what was faster, and in `behind`
# a rank that looks for its group in the wrong place waits, or goes on.
CHANCE = ("tune ", "behind ")


def leaves(value: object, place: str = "") -> dict[str, object]:
    """Every single value of a report, by the way that leads to it."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        found = {}
        for name, part in pairs:
            found |= leaves(part, f"{place}.{name}")
        return found
    return {} if CLOCKS.search(place) else {place: value}


def watched(path: Path, work: Path) -> Path:
    """The notebook with a devices.py that tells what each rank computes; `work` gets it."""
    notebook = nbformat.read(path, as_version=4)
    for cell in Lesson.of(notebook).code:
        if "devices.py" in cell.files:
            text = cell.files["devices.py"]
            cell.source = cell.source.replace(text, text + WATCH)
    # What a notebook draws, as the secret straggler of 14, is the same each time.
    notebook.cells.insert(0, new_code_cell("import random\n\nrandom.seed(0)"))
    target = work / path.name
    nbformat.write(notebook, target)
    return target


def computed(path: Path, work: Path, *options: str) -> tuple[dict, int, str]:
    """What a notebook's ranks computed; how many lines come from forked ones; what went wrong."""
    record = work / "record"
    record.unlink(missing_ok=True)
    record.touch()
    command = [
        sys.executable,
        "-m",
        "course.run.notebooks",
        watched(path, work),
        "--limit",
        "1200",
        *options,
    ]
    command += ["--jobs", "1", "--executed", work / "executed"]
    settings = {"PYTHONPATH": str(HERE), "FORKS_RECORD": str(record)}
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    facts = {}
    times = defaultdict(int)
    for line in lines:
        given = CHOSEN.sub(r"\1 …", " ".join(line["arguments"]))
        who = f"{line['program']} {given} rank {line['rank']} {line['what']}"
        times[who] += 1
        about = {"weights": line["weights"], "random": line["random"]}
        for name, value in leaves(about | {"told": line["numbers"]}).items():
            facts[f"{who} #{times[who]}{name}"] = value
    wrong = "" if done.returncode == 0 else done.stdout[-2000:] + done.stderr[-2000:]
    return facts, sum(line["forked"] for line in lines), wrong


def differences(one: dict, other: dict) -> set[str]:
    missing = object()
    names = one.keys() | other.keys()
    return {name for name in names if one.get(name, missing) != other.get(name, missing)}


def place(name: str) -> str:
    """Where a value is, whichever of a list's."""
    return re.sub(r"\.\d+", "", name)


def compare(path: Path, work: Path) -> str:
    """One line on a lesson; it begins with DIFFERS if forked launches compute something else."""
    began = time.monotonic()
    forked, ranks, worse = computed(path, work, "--forked")
    if not ranks and not worse:
        return f"same    {path.stem}: no launch is forked"
    plain, own, wrong = computed(path, work)  # a lesson may fork by itself
    if ranks <= own or wrong or worse:
        return f"DIFFERS {path.stem}: {wrong or worse or 'nothing was forked'}"
    other = differences(plain, forked)
    loose = set()
    if other:
        again, _, _ = computed(path, work)
        loose = differences(plain, again)
    # A list of times may have two that are the same by chance.
    places = {place(name) for name in loose if ".told." in name}
    firm = {name for name in other - loose if not name.startswith(CHANCE)}
    left = sorted(name for name in firm if place(name) not in places)
    weights = sum(".weights." in name for name in plain)
    said = f"{path.stem}: {len(plain)} values, {weights} of them weights"
    said += f", {ranks - own} lines by forked ranks"
    if loose:
        shown = ", ".join(sorted({place(name) for name in loose}))
        trained = sum(".weights." in name for name in loose)
        said += f"; {len(loose)} differ between two plain runs, {trained} of them weights ({shown})"
    said += f" ({time.monotonic() - began:.0f} s)"
    if not left:
        return f"same    {said}"
    shown = [f"{name}: {plain.get(name)} / {forked.get(name)}" for name in left[:20]]
    return "\n    ".join([f"DIFFERS {said}: {len(left)}", *shown])


def main() -> int:
    chosen = sys.argv[1:] or [""]
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    paths = [path for path in paths if path.stem.startswith(tuple(chosen))]
    FOUND.parent.mkdir(exist_ok=True)
    FOUND.write_text("")
    differ = 0
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            said = compare(path, Path(folder))
        print(said, flush=True)
        with FOUND.open("a") as file:
            file.write(said + "\n")
        differ += said.startswith("DIFFERS")
    print(f"{len(paths) - differ} of {len(paths)} lessons compute the same, plain and forked")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
