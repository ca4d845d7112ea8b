"""A training on one machine, joined by a second one: two torchrun agents on this machine stand for two machines.

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


def free_port() -> int:
    """A port that nobody used a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def agent(name: str, port: int, folder: Path, arguments: list[str]) -> subprocess.Popen:
    """Start torchrun for one node of one or two, in `folder`, where it writes `name.log`."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1"]
    command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=grow"]
    command += ["--rdzv-conf=last_call_timeout=1"]  # once there are enough, wait 1 s for more, not 30
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC")}
    # Else the first agent would keep the meeting place of its first round, and the second would look for a new one.
    ours |= {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    ours |= {"CUDA_VISIBLE_DEVICES": ""}  # each agent would give its rank the same first GPU of this one machine
    with (folder / f"{name}.log").open("w") as log:
        command += [str(Path("resume.py").resolve()), "--go-on", *arguments]
        return subprocess.Popen(command, cwd=folder, env=ours, stdout=log, stderr=log)


def steps(folder: Path) -> list[dict]:
    """What rank 0 has logged so far: a dict for each whole line."""
    log = folder / "run" / "log"
    text = log.read_text() if log.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--join-at", type=int, default=4, help="step after which the second agent is started")
    parser.add_argument("--hold-at", type=int, default=30, help="step after which the first waits for the second")
    parser.add_argument("--limit", type=float, default=100, help="seconds for everything")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument(
        "--pause", type=float, default=0.2, help="seconds added to a step, so that there is time to join"
    )
    args, place, folder = parser.parse_args(), here(), Path("grown")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # also then the agents are ended below
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    start, port, agents = time.time(), free_port(), []
    arguments = [f"--epochs={args.epochs}", f"--pause={args.pause}", f"--hold-at={args.hold_at}"]
    try:
        agents.append(agent("first", port, folder, arguments))
        while not (done := steps(folder)) or done[-1]["step"] < args.join_at:
            if agents[0].poll() is not None or time.time() > start + args.limit:
                raise RuntimeError((folder / "first.log").read_text()[-2000:] or "the first agent never began")
            time.sleep(0.1)
        print(f"step {done[-1]['step']} on {done[-1]['ranks']} rank: the second agent starts", flush=True)
        joined = time.time()
        agents.append(agent("second", port, folder, arguments))
        for each in agents:
            with suppress(subprocess.TimeoutExpired):
                each.wait(max(0.1, start + args.limit - time.time()))
        codes = [each.returncode for each in agents]
        if codes != [0, 0]:
            logs = [(folder / f"{name}.log").read_text()[-2000:] for name in ("first", "second")]
            raise RuntimeError("\n".join([f"exit codes {codes}, None: no end within {args.limit:.0f} s", *logs]))
    finally:
        for each in agents:
            each.terminate()  # its rank gets the signal too, and 30 s
        for each in agents:
            each.wait(45)
    result = json.loads((folder / "resume.json").read_text())
    for line in (folder / "first.log").read_text().splitlines():
        if line.startswith("rank"):
            print(line)
    report("grow", place, joined=joined, losses=result["losses"], lives=result["lives"])


if __name__ == "__main__":
    main()
