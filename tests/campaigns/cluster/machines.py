"""Two "machines" on this one: two network namespaces, joined by a link whose rate can be set.

No root is needed, but the right to make a user namespace (`unshare -Urn`; probe.py asks for it).
Each namespace lives as long as a sleeping process in it, its keeper.
"""

import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import tun
from beside import beside, ready

from course import rooms
from course.processes import Work

TUN = Path(tun.__file__)
# So much the token bucket lets pass at once, in bytes. With 64 KiB, 1 Gbit/s is not reached.
BURST = 256 << 10
SECONDS = 120  # for what is run on all machines at once
# A keeper: it says that its namespace is there, then sleeps.
KEEP = ["sh", "-c", "ip link set lo up && echo ready && exec sleep infinity"]


class Machine(NamedTuple):
    keeper: int  # process id
    address: str
    interface: str  # the end of the link

    def inside(self, *command: str | Path) -> list[str]:
        """A command line that runs a command in this namespace."""
        enter = ["nsenter", "--target", str(self.keeper), "--user", "--preserve-credentials"]
        return [*enter, "--net", *map(str, command)]

    def run(self, *command: str | Path) -> None:
        """Run a short command there; RuntimeError says what it said when it fails."""
        done = subprocess.run(self.inside(*command), capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")


@contextmanager
def two_machines(work: Work) -> Iterator[list[Machine]]:
    """Two namespaces and a free link between them, while the block runs."""
    environment = os.environ | work.environment()
    with ExitStack() as keepers:
        new = ["unshare", "--user", "--map-root-user", "--net", *KEEP]
        first = keepers.enter_context(ready(new, environment))
        machines = [Machine(first, "10.79.0.1", "link0")]
        # In the same user namespace, so that the link may reach from one to the other.
        other = machines[0].inside("unshare", "--net", *KEEP)
        second = keepers.enter_context(ready(other, environment))
        machines.append(Machine(second, "10.79.0.2", "link1"))

        ends = [machine.interface for machine in machines]
        pair = ["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]]
        machines[0].run(*pair, "netns", str(second))
        for machine in machines:
            machine.run("ip", "address", "add", f"{machine.address}/24", "dev", machine.interface)
            machine.run("ip", "link", "set", machine.interface, "up")
        yield machines


def limit(machines: Collection[Machine], rate: str) -> None:
    """Let both ends send at most at a rate such as "100mbit": the kernel's token bucket filter."""
    for machine in machines:
        bucket = ["tbf", "rate", rate, "burst", str(BURST), "latency", "50ms"]
        place = ["tc", "qdisc", "replace", "dev", machine.interface, "root"]
        machine.run(*place, *bucket)


@contextmanager
def wired(machines: Collection[Machine], work: Work, latency: float) -> Iterator[list[Machine]]:
    """The same machines at the ends of a second link, with so many seconds one way (tun.py)."""
    [near, far] = machines
    wire = near.inside(sys.executable, TUN, str(far.keeper), str(latency))
    with ready(wire, os.environ | work.environment()):
        ends = zip(machines, tun.ADDRESSES, tun.NAMES, strict=True)
        yield [Machine(machine.keeper, *end) for machine, *end in ends]


class Launch(NamedTuple):
    code: int  # exit code of what was started on one machine
    text: str  # what it and its ranks printed


def run_all(
    machines: Collection[Machine],
    work: Work,
    folder: Path,
    commands: Collection[Collection[str | Path]],
) -> list[Launch]:
    """Run one command on each machine, all at once, in a folder that they share.

    Who is not ready in time is killed, and has exit code -9.
    """
    settings = {"PYTHONPATH": rooms.python_path(), "OMP_NUM_THREADS": "1"}
    settings["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    logs = [folder / f"{machine.interface}.log" for machine in machines]
    deadline = time.monotonic() + SECONDS
    with ExitStack() as running:
        started = []
        for machine, command, log in zip(machines, commands, logs, strict=True):
            # gloo asks the host's name for its address, and our namespaces share one name.
            mine = {"GLOO_SOCKET_IFNAME": machine.interface}
            environment = os.environ | settings | work.environment() | mine
            process = beside(machine.inside(*command), environment, folder, log.name)
            started.append(running.enter_context(process))
        for process in started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0, deadline - time.monotonic()))
    ended = zip(started, logs, strict=True)
    return [Launch(process.returncode, log.read_text()) for process, log in ended]


def ranks(
    machines: Collection[Machine], work: Work, folder: Path, *command: str | Path
) -> list[Launch]:
    """Run a program with one rank on each machine. All must end well.

    Without torchrun, which would take as long to start as the ranks.
    """
    [head, *_] = machines
    meeting = ["LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", f"WORLD_SIZE={len(machines)}"]
    meeting += [f"MASTER_ADDR={head.address}", "MASTER_PORT=29500"]
    commands = []
    for rank in range(len(machines)):
        commands.append(["env", *meeting, f"RANK={rank}", sys.executable, *command])
    ended = run_all(machines, work, folder, commands)
    for each in ended:
        assert each.code == 0, each.text
    return ended
