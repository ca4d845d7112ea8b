"""Train with checkpoints, through sudden death and through notice to leave.

Run:  python resume.py                                        # one process
      torchrun --standalone --nproc-per-node=2 resume.py      # two ranks, and add one of these:
      torchrun … --max-restarts=1 resume.py --die-at 32       # the last rank is killed there
      torchrun … resume.py --notice-at 32                     # torchrun gets SIGTERM there
      torchrun … resume.py --go-on                            # and this takes it up again
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

from checkpoint import load_of_rank, newest, path_of, prune, save, usable
from devices import Place, here, report, start
from learner import Training

FOLDER = Path("run")  # of the checkpoints and of the log


def make_folder(place: Place, fresh: bool) -> None:
    """Rank 0 makes the folder, or empties it when there is nothing to take up."""
    if place.rank == 0:
        if fresh:
            shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(exist_ok=True)


def take_up(training: Training, place: Place, control: dist.ProcessGroup) -> list[list[int]]:
    """Go on from the newest checkpoint that all ranks hold, if any; the steps that each holds."""
    own = usable(FOLDER, place.rank, place.world_size)
    of_ranks = [None] * place.world_size
    dist.all_gather_object(of_ranks, own, group=control)
    chosen = newest(of_ranks)
    if chosen:
        step, world_size = chosen
        same = world_size == place.world_size
        # With another number of ranks, all take what rank 0 saved.
        rank = place.rank if same else 0
        state = load_of_rank(FOLDER, step, rank, world_size, place.device)
        training.restore(state, random=same)
    return [sorted(step for step, _ in keys) for keys in of_ranks]


def write_down(done: int, loss: float, place: Place) -> None:
    """Add a line to the log: which process was rank 0 in this step, and when."""
    life = {"time": time.time(), "process": os.getpid(), "ranks": place.world_size}
    with (FOLDER / "log").open("a") as log:
        print(json.dumps(life | {"step": done, "loss": loss}), file=log)


def die(other: Path) -> None:
    """End this process at the worst moment: another rank has saved, and this one has not."""
    while not other.exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)  # which no process can catch


def anyone(noticed: bool, control: dist.ProcessGroup) -> bool:
    """Whether any rank has had notice to leave: all learn it after the same step."""
    ranks = torch.tensor(noticed, dtype=torch.int)
    dist.all_reduce(ranks, group=control)
    return ranks.item() > 0


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--every", type=int, default=8, help="steps from checkpoint to checkpoint")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds added to a step")
    parser.add_argument("--die-at", type=int, help="step")
    parser.add_argument("--notice-at", type=int, help="step")
    parser.add_argument("--hold-at", type=int, help="step after which one rank waits for company")
    parser.add_argument("--go-on", action="store_true", help="take up what an earlier launch left")
    args = parser.parse_args()
    place = here()
    last = place.rank == place.world_size - 1
    first_life = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    if os.getppid() != AGENT:
        # Without torchrun nobody would end us, and a second launch would meet us here.
        sys.exit("torchrun is gone")
    start(place)
    # For small talk, on the CPU.
    control = dist.new_group(backend="gloo", timeout=timedelta(seconds=60))

    # Ranks that have met take up what they have in common.
    make_folder(place, fresh=first_life and not args.go_on)
    dist.barrier(control)
    training = Training(place, args.epochs)
    held = take_up(training, place, control)
    before = len(training.losses)
    if place.rank == 0:
        world = f"ranks: {place.world_size}"
        print(f"{world}, whole checkpoints of each: {held}, start after step {before}", flush=True)

    # From here on SIGTERM is only a note, and the step in hand is finished first.
    # So far it ended us: there was nothing to save.
    notes = []
    signal.signal(signal.SIGTERM, lambda *_: notes.append(True))
    for done in training.steps():
        time.sleep(args.pause)
        own = path_of(FOLDER, done, place.rank, place.world_size)
        if place.rank == 0:
            write_down(done, training.losses[-1], place)
            if done == args.notice_at:
                # To torchrun, as a cluster does before it takes the machine.
                os.kill(os.getppid(), signal.SIGTERM)
        if first_life and last and done == args.die_at:
            die(path_of(FOLDER, done, 0, place.world_size))
        while done == args.hold_at and place.world_size == 1 and not notes:
            time.sleep(0.05)

        if done % args.every == 0:
            save(training.to_save(), own)
            prune(FOLDER, place.rank, place.world_size)
        if anyone(bool(notes) or os.getppid() != AGENT, control):
            save(training.to_save(), own)
            print(f"rank {place.rank}: notice to leave; step {done} is saved\n", end="", flush=True)
            dist.destroy_process_group()
            sys.exit(128 + signal.SIGTERM)

    log = (FOLDER / "log").read_text()
    lives = [json.loads(line) for line in log.splitlines()]
    report("resume", place, losses=training.losses, start=before, held=held, lives=lives)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
