"""The training of again.py, which also leaves in order when it gets notice.

Run:  python resume.py                                        # one process
      torchrun --standalone --nproc-per-node=2 resume.py      # two ranks, and add one of these:
      torchrun … resume.py --notice-at 32                     # torchrun gets SIGTERM there
      torchrun … resume.py --go-on                            # and this takes it up again
"""

import argparse
import os
import signal
import sys
import time
from datetime import timedelta

AGENT = os.getppid()  # torchrun; asked before torch is imported, which takes seconds

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from again import FOLDER, make_folder, take_up, write_down, written_down
from checkpoint import path_of, prune, save
from devices import here, report, start
from learner import Training


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
    parser.add_argument("--notice-at", type=int, help="step")
    parser.add_argument("--hold-at", type=int, help="step after which one rank waits for company")
    parser.add_argument("--go-on", action="store_true", help="take up what an earlier launch left")
    args = parser.parse_args()
    place = here()
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

    lives = written_down()
    report("resume", place, losses=training.losses, start=before, held=held, lives=lives)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
