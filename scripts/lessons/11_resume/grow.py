"""A training on one machine, joined by a second one: two torchrun agents stand for two machines.

Run:  python grow.py
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report

FOLDER = Path("grown")  # where both agents and their ranks write
Agents = dict[str, subprocess.Popen]  # by name


def free_port() -> int:
    """A port that nobody used a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def agent(name: str, port: int, arguments: list[str]) -> subprocess.Popen:
    """Start torchrun for one node of one or two, in FOLDER, where it writes `name.log`."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1"]
    command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=grow"]
    command += ["--rdzv-conf=last_call_timeout=1"]  # once there are enough, wait 1 s, not 30
    command += [str(Path("resume.py").resolve()), "--go-on", *arguments]

    # What this program's own torchrun has told it is not meant for the agents.
    env = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC")}
    # Else the first agent would keep the meeting place of its first round, and the second
    # would look for a new one.
    env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    # Each agent would give its rank the same first GPU of this one machine.
    env["CUDA_VISIBLE_DEVICES"] = ""
    with (FOLDER / f"{name}.log").open("w") as log:
        return subprocess.Popen(command, cwd=FOLDER, env=env, stdout=log, stderr=log)


def last_words(name: str) -> str:
    """The end of what an agent and its rank have printed."""
    log = FOLDER / f"{name}.log"
    text = log.read_text()
    return text[-2000:]


def steps() -> list[dict]:
    """What rank 0 has logged so far: a dict for each whole line."""
    log = FOLDER / "run" / "log"
    if not log.exists():
        return []
    lines = log.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wait_for_step(number: int, first: subprocess.Popen, deadline: float) -> dict:
    """The first line of the log at or after a step. RuntimeError if that does not come."""
    while True:
        done = steps()
        if done and done[-1]["step"] >= number:
            return done[-1]
        if first.poll() is not None or time.time() > deadline:
            raise RuntimeError(last_words("first") or "the first agent never began")
        time.sleep(0.1)


def wait_for_end(agents: Agents, deadline: float) -> list[int | None]:
    """The agents' exit codes, None for one that has not ended in time."""
    for process in agents.values():
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, deadline - time.time()))
    return [process.returncode for process in agents.values()]


def end(agents: Agents) -> None:
    """Leave no process behind."""
    for process in agents.values():
        process.terminate()  # its rank gets the signal too, and 30 s
    for process in agents.values():
        process.wait(45)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--join-at", type=int, default=4, help="step that starts the second")
    parser.add_argument("--hold-at", type=int, default=30, help="step at which the first waits")
    parser.add_argument("--limit", type=float, default=100, help="seconds for everything")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds added to a step")
    args = parser.parse_args()
    place = here()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # also then the agents are ended below
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()

    deadline = time.time() + args.limit
    port = free_port()
    arguments = [f"--epochs={args.epochs}", f"--pause={args.pause}", f"--hold-at={args.hold_at}"]
    agents: Agents = {}
    try:
        agents["first"] = agent("first", port, arguments)
        now = wait_for_step(args.join_at, agents["first"], deadline)
        print(f"step {now['step']} on {now['ranks']} rank: the second agent starts", flush=True)
        joined = time.time()
        agents["second"] = agent("second", port, arguments)
        codes = wait_for_end(agents, deadline)
        if codes != [0, 0]:
            problem = f"exit codes {codes}, None: no end within {args.limit:.0f} s"
            logs = [last_words(name) for name in agents]
            raise RuntimeError("\n".join([problem, *logs]))
    finally:
        end(agents)

    result = json.loads((FOLDER / "resume.json").read_text())
    for line in (FOLDER / "first.log").read_text().splitlines():
        if line.startswith("rank"):
            print(line)
    report("grow", place, joined=joined, losses=result["losses"], lives=result["lives"])


if __name__ == "__main__":
    main()
