"""Train with checkpoints, through sudden death and through notice to leave.

Run:  python resume.py                                                                 # one process
      torchrun --standalone --nproc-per-node=2 --max-restarts=1 resume.py --die-at 32  # the last rank is killed there
      torchrun --standalone --nproc-per-node=2 resume.py --notice-at 32                # torchrun gets SIGTERM there
      torchrun --standalone --nproc-per-node=2 resume.py --go-on                       # and this takes it up again
"""

import argparse
import json
import os
import shutil
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

AGENT = os.getppid()  # torchrun; asked before torch is imported, which takes seconds

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from checkpoint import load, newest, place_of, prune, save, usable
from devices import here, report
from learner import Training


def die(other: Path) -> None:
    """End this process at the worst moment: another rank has saved, and this one has not. SIGKILL cannot be caught."""
    while not other.exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--every", type=int, default=8, help="steps from checkpoint to checkpoint")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds added to a step, to make it worth watching")
    parser.add_argument("--die-at", type=int, help="step")
    parser.add_argument("--notice-at", type=int, help="step")
    parser.add_argument("--hold-at", type=int, help="step after which a single rank waits for company")
    parser.add_argument("--go-on", action="store_true", help="take up what an earlier launch has left")
    parser.add_argument("--timeout", type=float, default=60)
    args, place, folder = parser.parse_args(), here(), Path("run")
    rank, world_size = place.rank, place.world_size
    first_life = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    if os.getppid() != AGENT:  # without torchrun nobody would end us, and a second launch would meet us here
        sys.exit("torchrun is gone")
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))
    control = dist.new_group(backend="gloo", timeout=timedelta(seconds=args.timeout))  # small talk, on the CPU

    if rank == 0:
        if first_life and not args.go_on:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(exist_ok=True)
    dist.barrier(control)
    training, found, noticed = Training(place, args.epochs), [None] * world_size, []
    mine = usable(folder, rank, world_size)
    dist.all_gather_object(found, mine, group=control)
    if chosen := newest(found):
        training.restore(load(mine[chosen], place.device), random=chosen[1] == world_size)
    start, held = len(training.losses), [sorted(step for step, _ in one) for one in found]
    if rank == 0:
        print(f"ranks: {world_size}, whole checkpoints of each: {held}, start after step {start}", flush=True)

    # From here on SIGTERM is only a note, and the step in hand is finished first. So far it ended us: nothing to save.
    signal.signal(signal.SIGTERM, lambda *_: noticed.append(True))
    log = (folder / "log").open("a")
    for done in training.steps():
        time.sleep(args.pause)
        if rank == 0:
            life = {"time": time.time(), "process": os.getpid(), "ranks": world_size, "step": done}
            print(json.dumps(life | {"loss": training.losses[-1]}), file=log, flush=True)
            if done == args.notice_at:
                os.kill(os.getppid(), signal.SIGTERM)  # to torchrun, as a cluster does before it takes the machine
        if first_life and done == args.die_at and rank == world_size - 1:
            die(place_of(folder, done, 0, world_size))
        while done == args.hold_at and world_size == 1 and not noticed:
            time.sleep(0.05)
        stop = torch.tensor(bool(noticed) or os.getppid() != AGENT, dtype=torch.int)
        if done % args.every == 0:
            save(training.state(), place_of(folder, done, rank, world_size))
            prune(folder, rank, world_size)
        dist.all_reduce(stop, group=control)  # one rank's notice is everyone's, after the same step
        if stop:
            save(training.state(), place_of(folder, done, rank, world_size))
            print(f"rank {rank}: notice to leave; step {done} is saved\n", end="", flush=True)
            dist.destroy_process_group()
            sys.exit(128 + signal.SIGTERM)
    lives = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    report("resume", place, losses=training.losses, start=start, held=held, lives=lives)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
