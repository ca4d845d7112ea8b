"""What the bench measures in half an hour: the ways of each part, its rows and their aims.

Each part has its ways from course.measure.launched.ways, or starts programs in turns itself.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from course.forked import fork, plain
from course.measure import backend
from course.measure.launched.turns import copies, turns
from course.measure.machine import bf16_units
from course.measure.rounds import Part, Ratio
from course.measure.start import BUILD, LAUNCHED, launch_own, lessons, start

WAYS = LAUNCHED / "ways.py"
COMPILED = {"TORCHINDUCTOR_CACHE_DIR": str(BUILD / "bench-compiled")}  # only the first run compiles
SIZES = {"1 MB": 1_000_000, "25 MB": 25_000_000}


def library() -> str:
    """The folder of lesson 21's backend, built; "" where there is no g++."""
    built = backend.build("nearby")
    return str(built.parent) if built else ""


def ways(
    work: Path,
    ranks: int,
    kind: str,
    argument: object,
    rounds: int,
    seed: int,
    copied: tuple[str, int] = ("", 0),
    **environment: str,
) -> dict:
    """So many rounds of one kind in new processes; or of `copied`: a way, and how many times."""
    options = [kind, argument, "--rounds", rounds, "--seed", seed]
    way, number = copied
    if number:
        options += ["--way", way, "--copies", number]
    return launch_own(work, ranks, WAYS, *options, beside=library(), **environment)


def kind(
    work: Path, ranks: int, name: str, argument: object = "", **environment: str
) -> Callable[..., dict]:
    return partial(ways, work, ranks, name, argument, **environment)


def resnet(work: Path) -> Part:
    ratios = [
        Ratio("DDP, two ranks / two that never talk", "stock", "silent", "pace", limit="≤ 1"),
        Ratio("DDP, two ranks / one rank, one thread", "stock", "alone", "pace", limit="≤ 2"),
        Ratio("DDP, two ranks / one process, two threads", "stock", "two threads", "pace"),
        Ratio("two that never talk / one rank, one thread", "silent", "alone", "pace", limit="≤ 2"),
    ]
    return Part("ranks", 1.5, kind(work, 2, "ranks", "ResNet"), ratios, ("silent again", "silent"))


def network(work: Path, name: str, aim: str, minutes: float) -> Part:
    """DDP as it is, tuned, and tuned on lesson 21's backend; each beside ranks that never talk."""
    never = "two that never talk"
    own = {"MLP": "≥ 0.85"}.get(name, aim)
    ratios = [
        Ratio(f"{name}, stock DDP / {never}", "stock", "silent", "pace", limit="≤ 1"),
        Ratio(f"{name}, tuned DDP / {never}", "tuned", "silent", "pace", aim, "≤ 1"),
        Ratio(f"{name}, tuned DDP on C++ / {never}", "C++", "silent", "pace", own, "≤ 1"),
    ]
    equal = ("silent again", "silent")
    return Part(name, minutes, kind(work, 2, "ranks", name), ratios, equal)


def buckets(work: Path) -> Part:
    ratios = [Ratio("our bucketed DDP / torch's, time of a step", "ours", "torch", aim="≤ 1.05")]
    return Part("buckets", 1.5, kind(work, 2, "buckets"), ratios, ("torch again", "torch"))


def transport(work: Path, size: str, aim: str) -> Part:
    """All-reduce of one message: gloo's, lesson 09's in Python, lesson 21's in C++; a memcpy."""
    ratios = [
        Ratio(f"shared memory / gloo, {size}", "Python", "gloo, mean", "pace", aim),
        Ratio(f"C++ all-reduce / gloo, {size}", "C++", "gloo", "pace", aim),
        Ratio(f"C++ all-reduce / one memcpy, {size}, time", "C++", "memcpy", "time", "≤ 2", "≥ 1"),
    ]
    run = kind(work, 2, "messages", SIZES[size])
    return Part(f"transport, {size}", 1, run, ratios, ("gloo again", "gloo"))


def loader(work: Path) -> Part:
    name = "our loader / torchvision, one by one"
    ratios = [Ratio(name, "ours", "torchvision", "pace", "≥ 4")]
    equal = ("torchvision again", "torchvision")
    return Part("loader", 1, kind(work, 1, "loader"), ratios, equal)


def workers(work: Path) -> Part:
    ratios = [
        Ratio("batches, one worker / none, time of an epoch", "batches, worker", "batches"),
        Ratio("one by one, one worker / none, time", "one by one, worker", "one by one"),
    ]
    equal = ("one by one again", "one by one")
    return Part("workers", 1, kind(work, 1, "workers"), ratios, equal)


def layout(work: Path) -> Part:
    name = "channels last (this CPU has no bf16 instructions)"
    if bf16_units():
        name = "channels last, bf16"
    ratios = [Ratio(f"{name} / plain fp32", "channels last", "plain", "pace")]
    return Part("layout", 1, kind(work, 1, "layout"), ratios, ("plain again", "plain"))


def recipe(work: Path) -> Part:
    aim = "≥ 1.6"
    note = "both fp32: this CPU has no bf16 instructions"
    if bf16_units():
        aim = "≥ 2.4"
        note = f"in bf16, with {' and '.join(bf16_units())}"
    ratios = [
        Ratio("recipe / textbook DDP, fp32", "recipe", "textbook", "pace", aim, note=note),
        Ratio("recipe, compiled / not compiled", "compiled", "recipe", "pace"),
    ]
    run = kind(work, 2, "recipe", **COMPILED)
    return Part("recipe", 2.5, run, ratios, ("recipe again", "recipe"))


def compiled(work: Path) -> Part:
    ratios = [Ratio("compiled / eager, both NCHW fp32", "compiled", "eager", "pace", "≥ 1.3")]
    run = kind(work, 1, "compiled", **COMPILED)
    return Part("compile", 1.5, run, ratios, ("eager again", "eager"))


def first_step(work: Path) -> Part:
    name = "compile, first step: warm cache / cold"
    ratios = [Ratio(name, "warm", "cold", aim="≤ 0.143", note="a network of one convolution")]
    return Part("first step", 2, kind(work, 1, "first"), ratios, ("warm again", "warm"))


def accumulation(work: Path) -> Part:
    name = "four accumulation steps, no_sync / without"
    ratios = [Ratio(name, "no_sync", "every part", "pace", "≥ 1.45")]
    equal = ("no_sync again", "no_sync")
    return Part("accumulation", 1, kind(work, 2, "accumulation"), ratios, equal)


def sharded(work: Path) -> Part:
    ratios = [
        Ratio("FSDP / DDP, bytes that a rank sends in a step", "FSDP", "DDP", "bytes", "≤ 1.5"),
        Ratio("FSDP / DDP, time of a step", "FSDP", "DDP"),
    ]
    return Part("fsdp", 1, kind(work, 2, "fsdp"), ratios, ("DDP again", "DDP"))


def launches(work: Path) -> Part:
    """Two ranks that import torch and say who they are: what a launch takes before its work."""

    def run(rounds: int, seed: int, copied: tuple[str, int] = ("", 0)) -> dict:
        folder = work / "launches"
        if not folder.exists():
            lessons(folder)
        torchrun = ["torchrun", "--standalone", "--nproc-per-node=2", "devices.py"]
        launch = partial(start, folder, *torchrun)
        forked = partial(launch, **fork(folder))
        kinds = {"plain": partial(launch, **plain()), "forked": forked, "forked again": forked}
        way, number = copied
        if number:
            kinds = copies(kinds[way], number)
        return {"seconds": turns(kinds, rounds, seed, settle=1 if seed == 0 else 0)}

    ratios = [
        Ratio("a launch, forked / plain, time", "forked", "plain"),
        Ratio("a launch, plain, seconds", "plain"),
        Ratio("a launch, forked, seconds", "forked"),
    ]
    return Part("launches", 4, run, ratios, ("forked again", "forked"))


def site(work: Path) -> Part:
    """The site of one lesson. It is compared with nothing, so there is no known-equal pair."""

    def run(rounds: int, seed: int) -> dict:
        folders = ["--sources", work / "site-src", "--site", work / "site"]
        program = [sys.executable, "-m", "course.site", "--only", "06", *folders]
        build = partial(start, work, *program, OMP_NUM_THREADS="1")
        return {"seconds": turns({"site": build}, min(rounds, 10), seed)}

    return Part("site", 2.5, run, [Ratio("the site of one lesson, seconds", "site")])


PARTS: dict[str, Callable[[Path], Part]] = {
    "ranks": resnet,
    "ResNet-9": partial(network, name="ResNet-9", aim="≥ 0.97", minutes=2),
    "small-CNN": partial(network, name="small CNN", aim="≥ 0.93", minutes=2.5),
    "MLP": partial(network, name="MLP", aim="", minutes=1),
    "buckets": buckets,
    "transport-1": partial(transport, size="1 MB", aim="≥ 10"),
    "transport-25": partial(transport, size="25 MB", aim="≥ 3"),
    "loader": loader,
    "workers": workers,
    "layout": layout,
    "recipe": recipe,
    "compile": compiled,
    "first-step": first_step,
    "accumulation": accumulation,
    "fsdp": sharded,
    "launches": launches,
    "site": site,
}
