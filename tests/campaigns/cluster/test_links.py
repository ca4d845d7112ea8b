"""Lesson 14's two numbers of a link, on real ones: namespaces joined by a link with a rate.

Times are claimed here, on a machine that may be busy. So each is the least of several, since what
else the machine does only adds, and is held against the arithmetic of the link.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from machines import BURST, Machine, limit, ranks, two_machines, wired

from course import rooms
from course.processes import Work

pytestmark = pytest.mark.cluster

SWEEP = Path(__file__).resolve().parents[2] / "programs" / "over_link.py"
RATES = {"1gbit": 1e9, "100mbit": 1e8}  # bits a second
MADE_UP = {"1gbit": "1 Gbit/s", "100mbit": "0.1 Gbit/s"}  # the same, as link.py calls them
LARGE = 1 << 20  # bytes from which on a message pays for its size
# Ethernet, IP and TCP add 66 bytes to 1448: 4.6 %. The rest is for a busy machine.
OVERHEAD = 1.25
LATENCY = 0.005  # seconds one way


class Links:
    """What the programs report over each link, with the parts that are measured once."""

    def __init__(self, machines: list[Machine], work: Work):
        self.machines = machines
        self.work = work
        self.found: dict[str, dict] = {}

    def over(self, link: str, program: Path, *options: str) -> dict:
        """Rank 0's report of a program over "free", over a rate, or over the "wire"."""
        name = f"{program.stem}-{link}"
        if name not in self.found:
            if link in RATES:
                limit(self.machines, link)
            folder = self.work.folder / name
            folder.mkdir()
            with ExitStack() as wires:
                ends = self.machines
                if link == "wire":
                    wire = wired(self.machines, self.work, LATENCY)
                    ends = wires.enter_context(wire)
                ranks(ends, self.work, folder, program, *options)
            self.found[name] = json.loads((folder / f"{program.stem}.json").read_text())
        return self.found[name]

    def sweep(self, link: str) -> dict[int, list[float]]:
        """Bytes → seconds of each all-reduce over a link."""
        # Without networks, whose steps the lesson's program times.
        sizes = self.over(link, SWEEP, "--rounds", "5", "--widths")["sizes"]
        return {int(size): times for size, times in sizes.items()}

    def lesson(self, link: str) -> dict:
        """What lesson 14's program reports over a link: sweep, steps and made-up links."""
        return self.over(link, rooms.program("link"), "--rounds", "4")


@pytest.fixture(scope="module")
def links(work: Work) -> Iterator[Links]:
    """Free first: a limit stays."""
    with two_machines(work) as machines:
        found = Links(machines, work)
        found.sweep("free")
        found.lesson("free")
        yield found


@pytest.mark.parametrize("link", RATES)
def test_large_messages_take_their_bits_by_the_rate(links: Links, link: str) -> None:
    sweep = links.sweep(link)
    for size, times in sweep.items():
        if size >= LARGE:
            # Two ranks: in all, each sends the message once and receives it once. What the bucket
            # has saved up passes at once.
            least = 8 * (size - BURST) / RATES[link]
            most = OVERHEAD * 8 * size / RATES[link]
            assert least <= min(times) <= most, f"{size} bytes, {link}: {times}"


@pytest.mark.parametrize("link", RATES)
def test_small_messages_do_not_notice_the_rate(links: Links, link: str) -> None:
    sweep = links.sweep(link)
    # Minima: a busy machine holds up a small message more than its bytes do.
    assert min(sweep[4]) < min(sweep[LARGE]) / 10


def test_the_free_link_is_limited_by_nobody(links: Links) -> None:
    free = links.sweep("free")
    slow = links.sweep("1gbit")
    for size in free:
        if size > LARGE:
            assert min(free[size]) < 8 * size / RATES["1gbit"] < min(slow[size]) * OVERHEAD


def test_latency_holds_up_small_messages_and_large_ones_alike(links: Links) -> None:
    sweep = links.sweep("wire")
    # Minima: the wire is a process, and on a busy machine it has to wait for its turn.
    least = {size: min(times) for size, times in sweep.items()}
    # gloo's smallest message crosses twice: there, and the answer back.
    assert 2 * LATENCY <= least[4] <= 4 * LATENCY, sweep
    # 32 times the bytes, and not the double of the time.
    assert least[32 << 10] < 2 * least[1 << 10], sweep


def alike(made_up: list[float], real: list[float], own: list[float], link: str) -> bool:
    """Whether times over a made-up link are like those over a real one.

    `own`: those over the free link. The made-up wire comes on top of a real all-reduce, so its
    times may be longer by these, and by what the real link's bucket lets pass at once. Minima,
    since what else the machine does only adds.
    """
    longest = min(real) + min(own) + 8 * BURST / RATES[link]
    return 0.75 * min(real) <= min(made_up) <= OVERHEAD * longest


@pytest.mark.parametrize("link", RATES)
def test_the_made_up_link_is_like_the_real_one(links: Links, link: str) -> None:
    # The same program over the free link with a made-up wire on it, and over a link that is slow.
    free = links.lesson("free")["sweep"]
    real = links.lesson(link)["sweep"]["this machine"]
    for size, made_up in free[MADE_UP[link]].items():
        if int(size) >= LARGE:
            own = free["this machine"][size]
            assert alike(made_up, real[size], own, link), f"{size}: {made_up}, {real[size]}, {own}"


def steps(report: dict) -> dict[str, list[float]]:
    """Link → seconds of a step of the largest network, with "alone" for no link."""
    largest = max(row["parameters"] for row in report["steps"])
    return {r["link"]: r["seconds"] for r in report["steps"] if r["parameters"] == largest}


def added(times: dict[str, list[float]], link: str) -> list[float]:
    """What a link adds to a step: seconds in each round."""
    return [seconds - min(times["alone"]) for seconds in times[link]]


@pytest.mark.parametrize("link", RATES)
def test_a_made_up_link_adds_to_a_step_what_a_real_one_adds(links: Links, link: str) -> None:
    free = steps(links.lesson("free"))
    slow = steps(links.lesson(link))
    # A step computes, and what others compute here delays it by more than a link does.
    [quick, late] = sorted([min(free["alone"]), min(slow["alone"])])
    if late > 1.5 * quick:
        ms = f"{1000 * quick:.0f} and {1000 * late:.0f} ms"
        pytest.skip(f"this machine is too busy to compare steps: one alone took {ms}")
    made_up = added(free, MADE_UP[link])
    real = added(slow, "this machine")
    own = added(free, "this machine")
    assert alike(made_up, real, own, link), f"{made_up}, {real}, {own}"


def test_what_was_measured_is_kept(links: Links, keep) -> None:
    keep("links.json", links.found)
