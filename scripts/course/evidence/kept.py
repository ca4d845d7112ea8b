"""What machines with GPUs showed, as assets/*-x*.json keeps it: a row for each lesson.

A row belongs to what ran: it counts while the lesson's solved notebook runs the same.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

from slugify import slugify

from course.evidence.record import (
    LINES,
    MACHINE,
    PLAIN,
    SECONDS,
    checks,
    list_of,
    object_of,
    strict,
)
from course.evidence.record import SCHEMA as RECORD
from course.files import write
from course.lesson import BuildError, demand

KAGGLE = "kaggle-t4x2.json"
TWO = ["Tesla T4", "Tesla T4"]


class Headline(NamedTuple):
    """One number of a lesson that the page shows."""

    key: str
    lesson: str
    program: str
    english: str
    chinese: str
    value: Callable[[dict], float | bool]


def fastest_way(run: dict, way: str) -> float:
    return run["ways"][way]["step"]


def ratio_of(run: dict) -> float:
    """The plain network's seconds over DataParallel's on two GPUs, for the largest batch."""
    if run["used"] != [0, 1]:
        raise LookupError("it used no second GPU")
    times = run["times"][-1]
    return median(times["plain"]) / median(times["parallel"])


HEADLINES = [
    Headline(
        "latency_ms", "00", "pulse", "all-reduce of 1 KB, ms", "all-reduce 1 KB，毫秒",
        lambda run: 1e3 * run["seconds"][0],
    ),
    Headline(
        "bandwidth", "00", "pulse", "largest all-reduce, GB/s", "最大的 all-reduce，GB/s",
        lambda run: run["sizes"][-1] / run["seconds"][-1] / 1e9,
    ),
    Headline(
        "second_device", "04", "dp", "DataParallel used GPU 1", "DataParallel 用到 GPU 1",
        lambda run: run["used"] == [0, 1] and run["peaks"][1] > 0,
    ),
    Headline(
        "dataparallel", "04", "dp",
        "DataParallel, × one GPU", "DataParallel 的速度，是一張 GPU 的幾倍",
        ratio_of,
    ),
    Headline(
        "pace_one", "06", "scaling", "pictures/s, one rank", "一個 rank，每秒圖片數",
        lambda run: run["table"][-1]["batch"] / run["table"][-1]["alone"],
    ),
    Headline(
        "pace_two", "06", "scaling", "pictures/s, two ranks (DDP)", "兩個 rank（DDP），每秒圖片數",
        lambda run: run["table"][-1]["batch"] / run["table"][-1]["ddp"],
    ),
    Headline(
        "scaling", "06", "scaling",
        "DDP on two ranks, × one rank", "DDP 的速度，是一個 rank 的幾倍",
        lambda run: run["table"][-1]["alone"] / run["table"][-1]["ddp"],
    ),
    Headline(
        "compiled", "07", "speed", "compiled, × eager", "編譯後的速度，是 eager 的幾倍",
        lambda run: fastest_way(run, "channels last") / fastest_way(run, "compiled"),
    ),
    Headline(
        "amp", "07", "speed", "16 bits, × fp32", "16 位元的速度，是 fp32 的幾倍",
        lambda run: fastest_way(run, "channels last") / fastest_way(run, "16 bits"),
    ),
    Headline(
        "fsdp_peak", "16", "", "FSDP's peak, × its forecast", "FSDP 最多用的記憶體，是預測的幾倍",
        lambda lines: fsdp_peak(lines),
    ),
    Headline(
        "recipe_seconds", "24", "sprint", "the recipe's seconds", "配方花的秒數",
        lambda run: run["runs"][0]["seconds"],
    ),
    Headline(
        "recipe_percent", "24", "sprint", "the recipe's accuracy, %", "配方的準確率，%",
        lambda run: 100 * run["runs"][0]["mirrored"],
    ),
]  # fmt: skip
COUNT = {"type": "integer", "minimum": 0}
FIGURES = {"type": "object", "additionalProperties": {"type": ["number", "boolean"]}}
ROW = object_of(
    row=PLAIN,
    code=RECORD["properties"]["code"],
    date=RECORD["properties"]["date"],
    minutes=COUNT,
    gpus=COUNT,
    backend=PLAIN,
    torch=PLAIN,
    right=COUNT,
    wrong=COUNT,
    verdicts=LINES,
    launches={"type": "object", "additionalProperties": SECONDS},
    numbers=FIGURES,
)
ABOUT = {name: rule for name, rule in MACHINE["properties"].items() if name != "cores"}
SCHEMA = object_of(machine=object_of(**ABOUT), rows=list_of(ROW, 100))
FORECAST = re.compile(
    r"FSDP +forecast ([\d.]+) MB: tracked ([\d.]+) MB(?:, allocated ([\d.]+) MB)?"
)


def fsdp_peak(lines: list[str]) -> float:
    """What FSDP needed over what lesson 16 forecast: allocated on a GPU, else tracked."""
    found = [match for match in map(FORECAST.match, lines) if match]
    forecast, tracked, allocated = found[0].groups()
    return float(allocated or tracked) / float(forecast)


def printed(run: dict) -> list[str]:
    return [line for cell in run["cells"] for line in cell["printed"]]


def reports(run: dict) -> dict[str, dict]:
    """What each program reported in its first launch that ended well."""
    first: dict[str, dict] = {}
    for launch in run["launches"]:
        if launch["code"] == 0 and "reported" in launch:
            first.setdefault(launch["program"], launch["reported"])
    return first


def numbers(run: dict, lesson: str) -> dict[str, float | bool]:
    """The headline numbers of a run; without those that it does not hold."""
    held = {}
    reported = reports(run)
    for line in HEADLINES:
        if line.lesson == lesson:
            with suppress(LookupError, TypeError, ValueError, ZeroDivisionError):
                value = line.value(reported[line.program] if line.program else printed(run))
                held[line.key] = value if isinstance(value, bool) else float(f"{value:.3g}")
    return held


def file_name(machine: dict) -> str:
    """Where the rows of a machine are kept; it names no owner.

    Kaggle's lessons without a GPU run on a machine of their own, and belong to the same file.
    """
    gpus = machine["gpus"]
    if machine["kaggle"] and gpus in (TWO, []):
        return KAGGLE
    card = slugify(gpus[0], max_length=40) if gpus else "cpu"
    return f"{'kaggle-' if machine['kaggle'] else ''}{card}-x{len(gpus)}.json"


def row(run: dict, verdicts: list[str]) -> dict:
    """What is kept of a whole run."""
    lesson = run["notebook"].rpartition("/")[2]
    machine = run["machine"]
    reported = reports(run)
    backends = {each.get("backend") for each in reported.values() if each.get("world_size") == 2}
    launches: dict[str, float] = {}
    for launch in run["launches"]:
        name = f"{launch['program']} on {launch['ranks']}"
        launches.setdefault(name, round(launch["seconds"]))
    right, wrong = checks(run)
    return {
        "row": lesson,
        "code": run["code"],
        "date": run["date"],
        "minutes": max(1, round(run["seconds"] / 60)),
        "gpus": len(machine["gpus"]),
        "backend": "nccl" if "nccl" in backends else "gloo" if "gloo" in backends else "",
        "torch": machine["torch"],
        "right": right,
        "wrong": wrong,
        "verdicts": verdicts,
        "launches": launches,
        "numbers": numbers(run, lesson[:2]),
    }


def load(path: Path) -> dict:
    """A file of rows; an empty one if there is none. BuildError for a spoilt one."""
    if not path.exists():
        return {"machine": {}, "rows": []}
    from jsonschema import Draft202012Validator  # takes a moment

    remedy = "take its last version that was whole, or remove it"
    place = f"assets/{path.name}"
    try:
        file = strict(path.read_text())
    except ValueError as error:
        raise BuildError(f"{place} is no JSON ({error}): {remedy}.") from None
    error = next(Draft202012Validator(SCHEMA).iter_errors(file), None)
    where = ".".join(map(str, error.path)) if error else ""
    demand(error is None, place, f"not what evidence wrote ({where or 'the whole'}): {remedy}.")
    return file


def keep(root: Path, run: dict, verdicts: list[str]) -> Path:
    """Put a run's row among those of its machine, in place of the lesson's earlier one."""
    path = root / "assets" / file_name(run["machine"])
    file = load(path)
    rows = {each["row"]: each for each in file["rows"]}
    new = row(run, verdicts)
    rows[new["row"]] = new
    machine = run["machine"]
    if machine["gpus"] or not file["machine"]:
        file["machine"] = {key: machine[key] for key in ("gpus", "driver", "torch", "nccl")}
        file["machine"] |= {"python": machine["python"], "kaggle": machine["kaggle"]}
    lines = ",\n".join(f"  {json.dumps(rows[name], ensure_ascii=False)}" for name in sorted(rows))
    head = json.dumps(file["machine"], ensure_ascii=False)
    write(path, f'{{\n "machine": {head},\n "rows": [\n{lines}\n ]\n}}\n')
    return path


def machines(root: Path) -> dict[str, dict]:
    """All files of rows, by their names."""
    assets = root / "assets"
    paths = sorted({*assets.glob("*-x[0-9].json"), *assets.glob("*-x[0-9][0-9].json")})
    paths += assets.glob(KAGGLE)
    return {path.name: load(path) for path in paths}


def valid(file: dict, solved: dict[str, str]) -> dict[str, dict]:
    """The rows that belong to what runs today; `solved`: its hash for each lesson."""
    return {each["row"]: each for each in file["rows"] if solved.get(each["row"]) == each["code"]}
