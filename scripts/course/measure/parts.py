"""What the bench measures: the ways of each part, its rows and their aims.

Each part has its ways from course.measure.launched.ways.
"""

import os
from collections.abc import Callable
from pathlib import Path

from course import rooms
from course.measure import backend
from course.measure.machine import bf16_units
from course.measure.pairs import Part, Ratio, Seconds
from course.measure.start import BUILD, LAUNCHED, launch

COMPILED = {"TORCHINDUCTOR_CACHE_DIR": str(BUILD / "bench-compiled")}  # only the first run compiles
NEVER = "two that never talk"
ALONE = "one rank, one thread"


def ways(
    work: Path, ranks: int, kind: str, argument: object = "", **environment: str
) -> Callable[[int, int], Seconds]:
    """A function of rounds and seed: so many rounds of one kind, in new processes."""

    def run(rounds: int, seed: int) -> Seconds:
        built = backend.build("nearby")  # lesson 21's; None where there is no g++
        path = [str(built.parent)] if built else []
        found = os.pathsep.join([*path, rooms.python_path()])
        command = [LAUNCHED / "ways.py", kind, argument, "--rounds", rounds, "--seed", seed]
        return launch(work, ranks, *command, PYTHONPATH=found, **environment)["seconds"]

    return run


def network(work: Path, name: str, aim: str, minutes: float, own: str) -> Part:
    """DDP as it is, tuned, and tuned on lesson 21's backend; each beside ranks that never talk."""
    ratios = [
        Ratio(f"{name}, stock DDP / {NEVER}", "stock", "silent", limit="≤ 1"),
        Ratio(f"{name}, tuned DDP / {NEVER}", "tuned", "silent", aim, "≤ 1"),
        Ratio(f"{name}, tuned DDP on C++ / {NEVER}", "C++", "silent", own, "≤ 1"),
    ]
    return Part(name, minutes, ways(work, 2, "ranks", name), ratios, "silent")


def transport(work: Path, megabytes: int, aim: str) -> Part:
    """All-reduce of one message: gloo's, lesson 09's in Python, lesson 21's in C++; a memcpy."""
    size = f"{megabytes} MB"
    memcpy = f"C++ all-reduce / one memcpy, {size}, time"
    ratios = [
        Ratio(f"shared memory / gloo, {size}", "Python", "gloo, mean", aim),
        Ratio(f"C++ all-reduce / gloo, {size}", "C++", "gloo", aim),
        Ratio(memcpy, "C++", "memcpy", "≤ 2", "≥ 1", time=True),
    ]
    run = ways(work, 2, "messages", megabytes * 1_000_000)
    return Part(f"transport, {size}", 1, run, ratios, "gloo")


def parts(work: Path) -> dict[str, Part]:
    """All parts, by the names that a command has for them."""
    bf16 = bf16_units()
    last = "channels last, bf16" if bf16 else "channels last (this CPU has no bf16 instructions)"
    note = "both fp32: this CPU has no bf16 instructions"
    if bf16:
        note = f"in bf16, with {' and '.join(bf16)}"
    ranks = [
        Ratio(f"DDP, two ranks / {NEVER}", "stock", "silent", limit="≤ 1"),
        Ratio(f"DDP, two ranks / {ALONE}", "stock", "alone", limit="≤ 2"),
        Ratio("DDP, two ranks / one process, two threads", "stock", "two threads"),
        Ratio(f"{NEVER} / {ALONE}", "silent", "alone", limit="≤ 2"),
    ]
    bucketed = "our bucketed DDP / torch's, time of a step"
    buckets = [Ratio(bucketed, "ours", "torch", "≤ 1.05", time=True)]
    loader = [Ratio("our loader / torchvision, one by one", "ours", "torchvision", "≥ 4")]
    layout = [Ratio(f"{last} / plain fp32", "channels last", "plain")]
    faster = "≥ 2.4" if bf16 else "≥ 1.6"
    recipe = [
        Ratio("recipe / textbook DDP, fp32", "recipe", "textbook", faster, note=note),
        Ratio("recipe, compiled / not compiled", "compiled", "recipe"),
    ]
    compiled = [Ratio("compiled / eager, both NCHW fp32", "compiled", "eager", "≥ 1.3")]
    silent = "four accumulation steps, no_sync / without"
    accumulation = [Ratio(silent, "no_sync", "every part", "≥ 1.45")]
    made = [
        Part("ranks", 1.5, ways(work, 2, "ranks", "ResNet"), ranks, "silent"),
        network(work, "ResNet-9", "≥ 0.97", 2, own="≥ 0.97"),
        network(work, "small CNN", "≥ 0.93", 2.5, own="≥ 0.93"),
        network(work, "MLP", "", 1, own="≥ 0.85"),
        Part("buckets", 1.5, ways(work, 2, "buckets"), buckets, "torch"),
        transport(work, 1, "≥ 10"),
        transport(work, 25, "≥ 3"),
        Part("loader", 1, ways(work, 1, "loader"), loader, "torchvision"),
        Part("layout", 1, ways(work, 1, "layout"), layout, "plain"),
        Part("recipe", 2.5, ways(work, 2, "recipe", **COMPILED), recipe, "recipe"),
        Part("compile", 1.5, ways(work, 1, "compiled", **COMPILED), compiled, "eager"),
        Part("accumulation", 1, ways(work, 2, "accumulation"), accumulation, "no_sync"),
    ]
    return {part.name.replace(",", "").replace(" ", "-"): part for part in made}
