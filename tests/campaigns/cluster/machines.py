"""Two "machines" on this one: two network namespaces, joined by a link whose rate can be set.

No root is needed, but the right to make a user namespace (`unshare -Urn`; probe.py asks for it).
Each namespace lives as long as a sleeping process in it, its keeper, which carries the mark of the
work and ends with it.
"""

import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import rooms
import tun
from run_processes import Work

ROOT = Path(__file__).resolve().parents[3]
TUN = Path(tun.__file__)
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
# So much the token bucket lets pass at once, in bytes; the kernel asks for rate / HZ at least.
BURST = 256 << 10
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


def keeper(work: Work, *enter: str) -> int:
    """Start the sleeping process of a new namespace; its id, once the namespace is there."""
    started = subprocess.Popen(
        [*enter, *KEEP],
        env=os.environ | work.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = started.stdout.readline()
    if said != "ready\n":
        raise RuntimeError(f"no namespace: {said}{started.stdout.read()}")
    return started.pid


@contextmanager
def two_machines(work: Work) -> Iterator[list[Machine]]:
    """Two namespaces and a free link between them, while the block runs."""
    first = keeper(work, "unshare", "--user", "--map-root-user", "--net")
    machines = [Machine(first, "10.79.0.1", "link0")]
    second = keeper(work, *machines[0].inside("unshare", "--net"))
    machines.append(Machine(second, "10.79.0.2", "link1"))
    try:
        ends = [machine.interface for machine in machines]
        pair = ["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]]
        machines[0].run(*pair, "netns", str(second))
        for machine in machines:
            machine.run("ip", "address", "add", f"{machine.address}/24", "dev", machine.interface)
            machine.run("ip", "link", "set", machine.interface, "up")
        yield machines
    finally:
        for machine in machines:
            with suppress(ProcessLookupError):
                os.kill(machine.keeper, 9)


def limit(machines: Collection[Machine], rate: str) -> None:
    """Let both ends send at most at a rate such as "100mbit": the kernel's token bucket filter."""
    for machine in machines:
        bucket = ["tbf", "rate", rate, "burst", str(BURST), "latency", "50ms"]
        place = ["tc", "qdisc", "replace", "dev", machine.interface, "root"]
        machine.run(*place, *bucket)


def wired(machines: Collection[Machine], work: Work, latency: float) -> list[Machine]:
    """The same machines at the ends of a second link, with so many seconds one way (tun.py)."""
    [near, far] = machines
    wire = subprocess.Popen(
        near.inside(sys.executable, TUN, str(far.keeper), str(latency)),
        env=os.environ | work.environment("wire"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = wire.stdout.readline()
    if said != "ready\n":
        raise RuntimeError(f"no wire: {said}{wire.stdout.read()}")
    ends = zip(machines, tun.ADDRESSES, tun.NAMES, strict=True)
    return [Machine(machine.keeper, *end) for machine, *end in ends]


class Launch(NamedTuple):
    code: int  # exit code of torchrun on one machine
    text: str  # what it and its ranks printed


def launch(
    machines: Collection[Machine], work: Work, folder: Path, *command: str, seconds: float = 120
) -> list[Launch]:
    """One torchrun on each machine, one rank each, with the static rendezvous of lesson 13."""
    [head, *_] = machines
    meeting = [f"--master-addr={head.address}", "--master-port=29500"]
    settings = {"PYTHONPATH": rooms.python_path(), "OMP_NUM_THREADS": "1"}
    agents = []
    for rank, machine in enumerate(machines):
        place = [f"--nnodes={len(machines)}", "--nproc-per-node=1", f"--node-rank={rank}"]
        # gloo asks the host's name for its address, and all our namespaces have the same name.
        mine = settings | work.environment() | {"GLOO_SOCKET_IFNAME": machine.interface}
        log = folder / f"agent{rank}.log"
        with log.open("w") as said:
            agent = subprocess.Popen(
                machine.inside(*TORCHRUN, *meeting, *place, *command),
                cwd=folder,
                env=os.environ | mine,
                stdout=said,
                stderr=said,
            )
        agents.append((agent, log))
    deadline = time.monotonic() + seconds
    for agent, _ in agents:
        with suppress(subprocess.TimeoutExpired):
            agent.wait(max(0, deadline - time.monotonic()))
    for agent, _ in agents:
        if agent.poll() is None:
            agent.kill()  # its ranks carry the mark, and end with the work
    return [Launch(agent.wait(), log.read_text()) for agent, log in agents]
